package command

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/node"
)

// diagnosed runs the doctor and returns its findings by check, and the exit code.
func diagnosed(t *testing.T, args ...string) (map[string][]finding, output) {
	t.Helper()
	got := tidemark(t, "", append([]string{"doctor", "-o", "json"}, args...)...)
	var all []finding
	require.NoError(t, json.Unmarshal([]byte(got.Out), &all), got.Err)
	byCheck := map[string][]finding{}
	for _, f := range all {
		byCheck[f.Check] = append(byCheck[f.Check], f)
	}
	return byCheck, got
}

func TestTheDoctorFindsARunningServerWell(t *testing.T) {
	dir := t.TempDir()
	out, _, stop := background(t, "serve", "--data-dir", dir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	out.waitFor(t, "ready\n")
	kafka, http := listening(t, out.String(), "kafka"), listening(t, out.String(), "http")
	found, got := diagnosed(t, "--data-dir", dir, "--kafka-listen", kafka, "--http-listen", http)
	require.Equal(t, ExitOK, got.Code, got.Out)
	require.Equal(t, []finding{okay("advertised address", "%s answers for node 1", kafka)}, found["advertised address"])
	require.Equal(t, []finding{okay("http listener", "%s answers: ready", http)}, found["http listener"])
	require.Contains(t, found["data directory"][0].Detail, dir+" is writable; syncing a small write takes ")
	for _, check := range []string{"file system", "free space", "descriptors", "memory", "clock", "kafka listener"} {
		require.Len(t, found[check], 1, check)
	}
	require.Equal(t, ExitOK, stop())
	left, err := filepath.Glob(filepath.Join(dir, ".tidemark-doctor-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTheDoctorExplainsAWrongAdvertisedAddress(t *testing.T) {
	dumb, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := dumb.Addr().String()
	require.NoError(t, dumb.Close())
	other := startServer(t)
	for name, test := range map[string]struct{ advertise, want string }{
		"nothing answers": {nobody, nobody + " is advertised, but nothing answers there from here: set --kafka-advertise"},
		"another cluster": {other, other + " is advertised, but another cluster answers there"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, _, stop := background(t, "serve", "--data-dir", dir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "off",
				"--kafka-advertise", test.advertise)
			out.waitFor(t, "ready\n")
			found, got := diagnosed(t, "--data-dir", dir, "--kafka-listen", listening(t, out.String(), "kafka"), "--http-listen", "off")
			require.Equal(t, ExitFailed, got.Code)
			require.Equal(t, statusFail, found["advertised address"][0].Status)
			require.Contains(t, found["advertised address"][0].Detail, test.want)
			require.Contains(t, got.Err, "1 check of ")
			require.Equal(t, ExitOK, stop())
		})
	}
}

func TestTheDoctorLooksAtEveryListener(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := closed.Addr().String()
	require.NoError(t, closed.Close())
	other := startServer(t)
	dir := t.TempDir()
	out, _, stop := background(t, "serve", "--data-dir", dir, "--http-listen", "off",
		"--kafka-listen", "127.0.0.1:0,127.0.0.1:0", "--kafka-advertise", ","+nobody)
	out.waitFor(t, "ready\n")
	both := regexp.MustCompile(`kafka +(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(out.String(), -1)
	first, second := both[0][1], both[1][1]
	found, got := diagnosed(t, "--data-dir", dir, "--kafka-listen", first+","+second+","+other, "--http-listen", "off")
	require.Equal(t, ExitFailed, got.Code)
	require.Len(t, found["advertised address"], 3)
	require.Equal(t, okay("advertised address", "%s answers for node 1", first), found["advertised address"][0])
	require.Contains(t, found["advertised address"][1].Detail, nobody+" is advertised, but nothing answers there from here")
	listeners := found["kafka listener"]
	require.Len(t, listeners, 4)
	require.Equal(t, []string{statusOK, statusOK, statusOK, statusFail},
		[]string{listeners[0].Status, listeners[1].Status, listeners[2].Status, listeners[3].Status})
	require.Contains(t, listeners[3].Detail, other+": node 1 of cluster ")
	require.Equal(t, ExitOK, stop())
}

func TestTheDoctorLooksBeforeThereIsAServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	found, got := diagnosed(t, "--data-dir", dir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	require.Equal(t, ExitOK, got.Code, got.Out)
	require.Contains(t, found["data directory"][0].Detail, dir+" does not exist yet; it can be created in ")
	require.Equal(t, []finding{okay("kafka listener", "no server runs at 127.0.0.1:0; the address is free")}, found["kafka listener"])
	require.NoDirExists(t, dir)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	found, got = diagnosed(t, "--data-dir", filepath.Join(file, "below"), "--kafka-listen", "127.0.0.1:0", "--http-listen", "off")
	require.Equal(t, ExitFailed, got.Code)
	require.Equal(t, statusFail, found["data directory"][0].Status)
	require.Regexp(t, `CHECK +\ndata directory +FAIL `, tidemark(t, "", "doctor", "--data-dir", filepath.Join(file, "below"),
		"--kafka-listen", "127.0.0.1:0", "--http-listen", "off").Out)
}

func TestTheDoctorKnowsTheMistakesOfBeginners(t *testing.T) {
	for _, test := range []struct{ listen, advertise, status, want string }{
		{"127.0.0.1:9092", "", "", ""},
		{"0.0.0.0:9092", "broker1:9092", "", ""},
		{"0.0.0.0:9092", "", statusWarn, "0.0.0.0:9092 has no --kafka-advertise"},
		{":9092", "", statusWarn, ":9092 has no --kafka-advertise"},
		{"0.0.0.0:9092", "localhost:9092", statusWarn, "leads clients on other machines to themselves"},
		{"[::]:9092", "[::1]:9092", statusWarn, "leads clients on other machines to themselves"},
		{"10.0.0.1:9092", "0.0.0.0:9092", statusFail, "is not an address that a client can connect to"},
	} {
		found := adviseAdvertised(node.Listener{Listen: test.listen, Advertise: test.advertise})
		if test.status == "" {
			require.Empty(t, found)
			continue
		}
		require.Len(t, found, 1)
		require.Equal(t, test.status, found[0].Status)
		require.Contains(t, found[0].Detail, test.want)
	}
}

func TestTheDoctorJudgesNumbers(t *testing.T) {
	require.Equal(t, okay("free space", "500.0 GiB of 1.0 TiB"), judgeSpace(500<<30, 1<<40))
	require.Equal(t, warn("free space", "2.0 GiB of 1.0 TiB"), judgeSpace(2<<30, 1<<40))
	require.Equal(t, warn("free space", "512.0 MiB of 1.0 GiB"), judgeSpace(512<<20, 1<<30))
	require.Equal(t, fail("free space", "1.0 MiB of 1.0 GiB: produce will be refused"), judgeSpace(1<<20, 1<<30))
	require.Equal(t, statusWarn, examineDescriptors(0).Status)
	require.Equal(t, statusWarn, examineDescriptors(1024).Status)
	require.Equal(t, statusOK, examineDescriptors(1<<20).Status)
	require.Equal(t, okay("memory", "limited to 1.0 GiB"), examineMemory(limits{memory: 1 << 30}))
	require.Equal(t, statusFail, examineClock(t.TempDir(), time.Unix(0, 0))[0].Status)
}
