package command

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// benched runs a measurement and reads its JSON.
func benched(t *testing.T, args ...string) benchResult {
	t.Helper()
	var r benchResult
	require.NoError(t, json.Unmarshal([]byte(done(t, "", append([]string{"bench"}, args...)...)), &r))
	return r
}

func TestBenchMeasuresProduceConsumeAndTheWayBetween(t *testing.T) {
	server := startServer(t)
	on := []string{"-o", "json", "--server", server}
	r := benched(t, append(on, "produce", "-n", "2000", "--size", "100", "--clients", "2", "--payload", "text", "-z", "lz4")...)
	require.Equal(t, int64(2000), r.Records)
	require.Equal(t, int64(200_000), r.ValueBytes)
	require.Positive(t, r.RecordsPerSecond)
	require.Positive(t, r.Latency.P50)
	require.GreaterOrEqual(t, r.Latency.Max, r.Latency.P9999)
	require.Nil(t, r.Server, "it is this process, and what the client takes cannot be told from it")

	r = benched(t, append(on, "consume", "-n", "3000", "--size", "50", "--clients", "2")...)
	require.Equal(t, int64(3000), r.Records)
	require.Nil(t, r.Latency)

	r = benched(t, append(on, "e2e", "-n", "50", "--rate", "5000")...)
	require.Equal(t, int64(50), r.Records)
	require.Positive(t, r.Latency.P50)

	require.Equal(t, "[]\n", done(t, "", "topic", "list", "-o", "json", "--server", server), "made topics are deleted")
	done(t, "x\n", "produce", "mine", "--server", server)
	require.Equal(t, int64(1), benched(t, append(on, "consume", "--topic", "mine")...).Records)
	require.Contains(t, done(t, "", "topic", "list", "--server", server), "mine", "a given topic is not")
	require.Regexp(t, `^produce  10 records in .*\nLATENCY +P50 (.*\n)+client   .*\nserver   its process cannot be seen`,
		done(t, "", "bench", "produce", "-n", "10", "--server", server))
}

func TestTheNullServerAcknowledgesAndForgets(t *testing.T) {
	out, errs, stop := background(t, "bench", "null")
	out.waitFor(t, "ready\n")
	server := listening(t, out.String(), "listens on")
	for _, acks := range []string{"all", "1"} {
		require.Equal(t, int64(500), benched(t, "produce", "-n", "500", "--acks", acks, "-o", "json", "--server", server).Records)
	}
	conn, err := net.Dial("tcp", server)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte{0, 0, 0, 10, 0, 99, 0, 0, 0, 0, 0, 1, 0, 0})
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "what it does not know is cut")
	require.Equal(t, ExitOK, stop(), errs.String())
	require.Regexp(t, `\nacknowledged and dropped \d+\.\d KiB of records\n$`, out.String())
}

// machine is a Linux machine as its files show it: process 42 listens on 127.0.0.1:9092.
func machine() fstest.MapFS {
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: 0o777 | 1<<27} }
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"proc/net/tcp": text("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
			"   0: 0100007F:2384 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 111 1\n" +
			"   1: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 777 1\n"),
		"proc/41/fd/3":   link("socket:[111]"),
		"proc/42/fd/0":   link("/dev/null"),
		"proc/42/fd/9":   link("socket:[777]"),
		"proc/42/stat":   text("42 (tide) mark) S 1 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 100 0 0\n"),
		"proc/42/status": text("Name:\ttidemark\nVmHWM:\t   90000 kB\nVmRSS:\t   80000 kB\n"),
	}
}

func TestTheProcessOfALocalServerIsFoundAndRead(t *testing.T) {
	require.Equal(t, 42, listenerAt(machine(), "127.0.0.1:9092"))
	require.Equal(t, 42, listenerAt(machine(), "localhost:9092"))
	for _, address := range []string{"127.0.0.1:9093", "10.0.0.1:9092", "broker:9092", "127.0.0.1", "127.0.0.1:0"} {
		require.Zero(t, listenerAt(machine(), address), address)
	}
	require.Zero(t, listenerAt(fstest.MapFS{}, "127.0.0.1:9092"))
	u, err := readProcess(machine(), 42)
	require.NoError(t, err)
	require.Equal(t, usage{cpu: 2, memory: 80000 << 10}, u)
	_, err = readProcess(machine(), 43)
	require.Error(t, err)
}

func TestAServerIsSeenThroughItsMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "# HELP x\nprocess_cpu_seconds_total 1.5\nprocess_resident_memory_bytes 1.048576e+06\nother{a=\"b c\"} 3\n")
	}))
	defer server.Close()
	u, err := readMetrics(server.URL)
	require.NoError(t, err)
	require.Equal(t, usage{cpu: 1.5, memory: 1 << 20}, u)
	require.Equal(t, &serverUse{PeakMemory: 1 << 20}, watchServer(nil, server.URL).stop())
	require.Nil(t, watchServer([]string{"127.0.0.1:1"}, "").stop())
}
