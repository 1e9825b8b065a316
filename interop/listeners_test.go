package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/server"
)

// freePort is a port that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func TestKcatIsToldTheAddressOfTheListenerThatItCameInOn(t *testing.T) {
	if !shared.maker.IsTidemark() {
		t.Log("Kafka needs names and protocols of listeners for the same; see its listener.security.protocol.map")
		return
	}
	inside, everywhere := freePort(t), freePort(t)
	s, err := server.NewTidemark(server.TidemarkOptions{
		Dir: t.TempDir(), Binary: shared.maker.Binary(),
		Args: []string{"--kafka-listen", "127.0.0.1:" + inside, "--kafka-listen", "0.0.0.0:" + everywhere,
			"--kafka-advertise", ",localhost:" + inside, "--insecure-listen"},
	})
	require.NoError(t, err)
	require.NoError(t, s.Start(limited(t, time.Minute)))
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	admin, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()))
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	_, err = kadm.NewClient(admin).CreateTopics(limited(t, time.Minute), 1, 1, nil, "listeners")
	require.NoError(t, err)

	for i, test := range []struct{ bootstrap, told string }{
		{s.Addr(), s.Addr()},
		{"127.0.0.1:" + inside, "localhost:" + inside},
		{"127.0.0.1:" + everywhere, "127.0.0.1:" + everywhere},
		{"127.0.0.3:" + everywhere, "127.0.0.3:" + everywhere},
	} {
		run := func(args ...string) []byte {
			out, err := exec.CommandContext(limited(t, time.Minute), "kcat", append([]string{"-b", test.bootstrap}, args...)...).Output()
			require.NoError(t, err, "kcat -b %s %v", test.bootstrap, args)
			return out
		}
		var listed struct {
			Brokers []struct {
				Name string `json:"name"`
			} `json:"brokers"`
		}
		require.NoError(t, json.Unmarshal(run("-L", "-J"), &listed))
		require.Len(t, listed.Brokers, 1)
		require.Equal(t, test.told, listed.Brokers[0].Name)

		group := "listeners-" + strconv.Itoa(i)
		written := fmt.Sprintf("through %s", test.bootstrap)
		produce := exec.CommandContext(limited(t, time.Minute), "sh", "-c", `printf '%s\n' "$1" | kcat -b "$2" -P -t listeners`, "sh", written, test.bootstrap)
		require.NoError(t, produce.Run())
		require.Contains(t, string(run("-q", "-G", group, "-X", "auto.offset.reset=earliest", "-c", strconv.Itoa(i+1), "listeners")), written)
	}
}
