package command

import (
	"io"
	"math"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/config"
)

func TestAContainersMemoryIsTheLeastOfItsGroups(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		}
		return m
	}
	for name, test := range map[string]struct {
		machine fstest.MapFS
		want    int64
	}{
		"no control groups":         {files(), 0},
		"version 2, no limit":       {files("proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "max\n"), 0},
		"version 2, inside":         {files("proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "536870912\n"), 512 << 20},
		"version 2, parent is less": {files("proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/memory.max", "100\n", "sys/fs/cgroup/a/b/memory.max", "200\n"), 100},
		"version 1": {files("proc/self/cgroup", "9:cpu,memory:/x\n0::/\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000\n"), 1000},
		"version 1, no limit": {files("proc/self/cgroup", "9:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"), 0},
		"a line that is none": {files("proc/self/cgroup", "what\n"), 0},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, containerMemory(test.machine)) })
	}
}

func TestLimitsComeFromTheConfigurationOrTheMachine(t *testing.T) {
	server := config.Server{MaxConnections: math.MaxInt32, QueuedMaxRequestBytes: -1, SocketRequestMaxBytes: 100 << 20}
	for name, test := range map[string]struct {
		change                          func(*config.Server)
		container, goLimit, descriptors int64
		want                            limits
	}{
		"nothing known":       {want: limits{}},
		"descriptors":         {descriptors: 1024, want: limits{openFiles: 512, connections: 256}},
		"many descriptors":    {descriptors: 1 << 20, want: limits{openFiles: 16384, connections: 262144}},
		"files are set":       {func(s *config.Server) { s.MaxOpenFiles = 7 }, 0, 0, 1024, limits{openFiles: 7, connections: 256}},
		"connections are set": {func(s *config.Server) { s.MaxConnections = 9 }, 0, 0, 1024, limits{openFiles: 512, connections: 9}},
		"a container":         {container: 1000 << 20, want: limits{memory: 900 << 20, requestBytes: 225 << 20}},
		"a large container":   {container: 100 << 30, want: limits{memory: 90 << 30, requestBytes: 1 << 30}},
		"a small container":   {container: 100 << 20, want: limits{memory: 90 << 20, requestBytes: 200 << 20}},
		"memory is set":       {func(s *config.Server) { s.MemoryLimit = 2 << 30 }, 1 << 30, 0, 0, limits{memory: 2 << 30, requestBytes: 512 << 20}},
		"GOMEMLIMIT is set":   {func(s *config.Server) { s.MemoryLimit = 2 << 30 }, 1 << 30, 4 << 30, 0, limits{memory: 4 << 30, requestBytes: 1 << 30}},
		"requests are set":    {func(s *config.Server) { s.QueuedMaxRequestBytes = 300 << 20 }, 1 << 30, 0, 0, limits{memory: 966367641, requestBytes: 300 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			s := server
			if test.change != nil {
				test.change(&s)
			}
			require.Equal(t, test.want, decideLimits(s, test.container, test.goLimit, test.descriptors))
		})
	}
}

func TestEveryKeyChangesWhatTheServerDoes(t *testing.T) {
	// What the log and the parts that are not served yet take; TestSettingsOfPartsThatAreNotThereAreToldOnce and
	// TestServeSaysWhereToConnectAndStopsWhenInterrupted look at those.
	elsewhere := []string{"LogLevel", "LogFormat", "FlightListen", "FlightAdvertise", "Store"}
	settle := func(s config.Server) any {
		l := decideLimits(s, 0, 0, 0)
		return []any{nodeSettings(s, l), l.memory}
	}
	loaded, err := config.Load(config.Sources{})
	require.NoError(t, err)
	plain := loaded.Server
	for i := range reflect.TypeFor[config.Server]().NumField() {
		name := reflect.TypeFor[config.Server]().Field(i).Name
		if slices.Contains(elsewhere, name) {
			continue
		}
		changed := plain
		field := reflect.ValueOf(&changed).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("other:1")
		case reflect.Bool:
			field.SetBool(!field.Bool())
		case reflect.Map:
			field.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		case reflect.Slice:
			other := reflect.ValueOf([]string{"other:1"})
			if field.Type() != other.Type() {
				other = reflect.ValueOf([]config.TopicPattern{{Pattern: "a", Settings: map[string]string{"b": "c"}}})
			}
			field.Set(other)
		case reflect.Float64:
			field.SetFloat(0.7)
		default:
			field.SetInt(7)
		}
		require.NotEqual(t, settle(plain), settle(changed), "nothing reads %s", name)
	}
}

func TestTheMemoryLimitIsThatOfTheRuntime(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	logger, _, err := newLogger(io.Discard, config.Server{LogLevel: "info"})
	require.NoError(t, err)
	limits{memory: 3 << 30}.apply(config.Server{}, logger)
	require.Equal(t, int64(3<<30), debug.SetMemoryLimit(-1))

	t.Setenv("GOMEMLIMIT", "3GiB") // as if the runtime had read it
	require.Equal(t, int64(3<<30), goMemoryLimit())
	var text strings.Builder
	logger, _, err = newLogger(&text, config.Server{LogLevel: "info"})
	require.NoError(t, err)
	limits{memory: 3 << 30}.apply(config.Server{MemoryLimit: 1 << 30}, logger)
	require.Equal(t, int64(3<<30), debug.SetMemoryLimit(-1))
	require.Contains(t, text.String(), "memory-limit has no effect: GOMEMLIMIT is set and stronger")
}
