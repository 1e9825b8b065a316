package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/config"
)

// listening finds the address of a listener in what a server prints.
func listening(t *testing.T, out, listener string) string {
	t.Helper()
	found := regexp.MustCompile(listener + ` +(?:http://)?(127\.0\.0\.1:\d+)`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	return found[1]
}

func TestServeSaysWhereToConnectAndStopsWhenInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	out, errs, stop := background(t, "serve", "--data-dir", dir, "--kafka-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0",
		"--kafka-advertise", "localhost:0")
	out.waitFor(t, "ready\n")
	kafka, http := listening(t, out.String(), "kafka"), listening(t, out.String(), "http")
	_, port, err := net.SplitHostPort(kafka)
	require.NoError(t, err)
	require.Equal(t, "tidemark "+version+", data in "+dir+"\n"+
		"  kafka  "+kafka+"  (advertised: localhost:"+port+")\n"+
		"  http   http://"+http+"  (/ /healthz /readyz /metrics)\nready\n", out.String())
	done(t, "", "topic", "create", "a", "--server", kafka)
	require.Equal(t, ExitOK, stop())
	require.Contains(t, errs.String(), "msg=stopping")
	require.NotContains(t, errs.String(), "level=WARN")
}

func TestServeTellsOfEveryListener(t *testing.T) {
	out, errs, stop := background(t, "serve", "--data-dir", t.TempDir(), "--http-listen", "off", "--insecure-listen",
		"--kafka-listen", "127.0.0.1:0,127.0.0.1:0", "--kafka-listen", "0.0.0.0:0", "--kafka-advertise", "localhost:0", "--kafka-advertise",
		"broker1:19092")
	out.waitFor(t, "ready\n")
	require.Regexp(t, `\A.*
  kafka  127\.0\.0\.1:(\d+)  \(advertised: localhost:\d+\)
  kafka  127\.0\.0\.1:\d+  \(advertised: broker1:19092\)
  kafka  (0\.0\.0\.0|\[::\]):\d+  \(advertised: the address that a client connects to\)
ready
\z`, out.String())
	require.Equal(t, ExitOK, stop(), errs.String())
}

func TestMoreAddressesAdvertisedThanListenedOnIsAMistake(t *testing.T) {
	got := tidemark(t, "", "serve", "--kafka-listen", "127.0.0.1:0", "--kafka-advertise", "a:1,b:2")
	require.Equal(t, ExitUsage, got.Code)
	require.Contains(t, got.Err, "kafka-advertise has 2 addresses and kafka-listen 1: expected one for each, in the same order")
}

func TestServeSaysWhyItCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	used := t.TempDir()
	startServerIn(t, used)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	address := taken.Addr().String()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the Kafka port is taken": {[]string{"--kafka-listen", address, "--http-listen", "off"},
			address + " is taken by another process; stop it, or choose another address with --kafka-listen (port 0 picks a free one)"},
		"the HTTP port is taken": {[]string{"--kafka-listen", "127.0.0.1:0", "--http-listen", address},
			address + " is taken by another process; stop it, or choose another address with --http-listen"},
		"the second Kafka port is taken": {[]string{"--kafka-listen", "127.0.0.1:0", "--kafka-listen", address, "--http-listen", "off"},
			address + " is taken by another process; stop it, or choose another address with --kafka-listen (port 0 picks a free one)"},
		"the directory is in use": {[]string{"--data-dir", used, "--kafka-listen", "127.0.0.1:0", "--http-listen", "off"},
			"another process has the data directory " + used + " open; stop it, or name another with --data-dir"},
		"the directory is a file": {[]string{"--data-dir", file, "--kafka-listen", "127.0.0.1:0", "--http-listen", "off"},
			file + " is not a directory; name another with --data-dir"},
		"the directory cannot be made": {[]string{"--data-dir", "/proc/nope", "--kafka-listen", "127.0.0.1:0", "--http-listen", "off"},
			"the data directory /proc/nope cannot be created, because of /proc/nope; name another with --data-dir"},
		"the address is another machine's": {[]string{"--kafka-listen", "192.0.2.1:9092", "--insecure-listen", "--http-listen", "off"},
			"192.0.2.1:9092 is not an address of this machine; listen on one that is, or on 0.0.0.0 for all of them, with --kafka-listen"},
		"the HTTP address is another machine's": {[]string{"--kafka-listen", "127.0.0.1:0", "--insecure-listen", "--http-listen", "192.0.2.1:80"},
			"192.0.2.1:80 is not an address of this machine; listen on one that is, or on 0.0.0.0 for all of them, with --http-listen"},
		"others could reach the second": {[]string{"--kafka-listen", "127.0.0.1:0", "--kafka-listen", "192.0.2.1:0", "--http-listen", "off"},
			"192.0.2.1:0 can be reached from other machines, and whoever reaches it can read and write everything"},
		"others could reach it": {[]string{"--kafka-listen", "0.0.0.0:0", "--http-listen", "off"},
			"0.0.0.0:0 can be reached from other machines, and whoever reaches it can read and write everything"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "d")}, test.args...)
			got := tidemark(t, "", args...)
			require.Equal(t, ExitFailed, got.Code, got.Err)
			require.Contains(t, got.Err, test.want)
			require.NotContains(t, got.Out, "ready")
		})
	}
}

func TestAStoreThatCannotBeUsedKeepsTheServerFromStarting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for store, want := range map[string]string{
		"s3://bucket?secret_key=abc": `opening the object store: the object store cannot be used: open object store s3://bucket: ` +
			`open bucket s3://bucket: unknown query parameter "secret_key"; fix it, name another with --store (file:///DIR is a directory), or leave --store out`,
		"file://" + file: "not a directory; fix it",
	} {
		got := tidemark(t, "", "serve", "--data-dir", filepath.Join(t.TempDir(), "d"), "--kafka-listen", "127.0.0.1:0",
			"--http-listen", "off", "--store", store)
		require.Equal(t, ExitFailed, got.Code, got.Err)
		require.Contains(t, got.Err, want)
		require.NotContains(t, got.Err+got.Out, "abc", "secrets are nobody's business")
		require.NotContains(t, got.Out, "ready")
	}
}

func TestSettingsOfPartsThatAreNotThereAreToldOnce(t *testing.T) {
	out, errs, stop := background(t, "serve", "--data-dir", t.TempDir(), "--kafka-listen", "127.0.0.1:0", "--http-listen", "off",
		"--flight-listen", "127.0.0.1:0", "--store", "file://"+t.TempDir(), "--log-format", "json")
	out.waitFor(t, "ready\n")
	require.Equal(t, ExitOK, stop())
	var warnings []string
	for line := range strings.Lines(errs.String()) {
		if strings.Contains(line, `"WARN"`) {
			warnings = append(warnings, line)
		}
	}
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], `"settings":["flight-listen"]`)
}

func TestTopicDefaultsGoByTheNameOfTheTopic(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
message.max.bytes: 3000
topic-patterns:
  - pattern: "big-*"
    max.message.bytes: 100000
`), 0o600))
	out, _, stop := background(t, "serve", "--data-dir", t.TempDir(), "--kafka-listen", "127.0.0.1:0", "--http-listen", "off",
		"--config", file)
	out.waitFor(t, "ready\n")
	server := listening(t, out.String(), "kafka")
	value := strings.Repeat("x", 5000)
	done(t, value, "produce", "big-one", "--server", server)
	got := tidemark(t, value, "produce", "small", "--server", server)
	require.Equal(t, ExitFailed, got.Code)
	require.Contains(t, got.Err, "MESSAGE_TOO_LARGE")
	require.Contains(t, got.Err, "0 records acknowledged")
	require.Equal(t, ExitOK, stop())
}

func TestDemoVerifiesEverythingAndLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	out := done(t, "", "demo", "--records", "2000")
	require.Contains(t, out, "2,000 records came back exactly once, in order and unchanged")
	require.Contains(t, out, "one record at a time: acknowledged in p50 ")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDemoOfOneRecordWorks(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	require.Contains(t, done(t, "", "demo", "-n", "1"), "1 record came back exactly once")
}

func TestAnInterruptedDemoLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	out, errs, stop := background(t, "demo", "--records", "1000000000")
	out.waitFor(t, "topic demo")
	require.Equal(t, ExitOK, stop(), errs.String())
	require.Contains(t, out.String(), "interrupted; the server was stopped and its data removed")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestADemoThatIsInterruptedAtOnceLeavesNothingBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("at once"))
	out := newLockedBuffer()
	require.Equal(t, ExitOK, Main(ctx, []string{"demo"}, Streams{In: strings.NewReader(""), Out: out, Err: out}), out.String())
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// Told of an error rather than of a machine: whoever runs the tests may be allowed everything.
func TestWhatTheSystemRefusesIsSaidInWordsWithWhatToDoNext(t *testing.T) {
	server := config.Server{DataDir: "/var/lib/tidemark", KafkaListen: []string{"127.0.0.1:80"}, HTTPListen: "127.0.0.1:81"}
	atFile := func(cause error) error { return &fs.PathError{Op: "mkdir", Path: "/var/lib", Err: cause} }
	atPort := func(port int, cause error) error {
		return &net.OpError{Op: "listen", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Err: cause}
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{atFile(syscall.EPERM), "no permission in the data directory /var/lib/tidemark; fix its owner or mode"},
		{atFile(syscall.ELOOP), "the data directory /var/lib/tidemark cannot be created, because of /var/lib; name another"},
		{atFile(syscall.EROFS), "is on a file system that is mounted read-only; mount it for writing, or name another"},
		{atFile(syscall.ENOSPC), "no space is left for the data directory /var/lib/tidemark; free some on its disk"},
		{atFile(syscall.EIO), "the disk under the data directory /var/lib/tidemark fails at /var/lib; look at the kernel's log"},
		{atPort(80, syscall.EACCES), "no permission to listen on 127.0.0.1:80: most systems reserve ports below 1024 for privileged users; " +
			"choose another with --kafka-listen"},
		{atPort(81, syscall.EACCES), "choose another with --http-listen"},
		{&net.OpError{Op: "listen", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}},
			"the name nowhere.invalid does not resolve here; listen on an address of this machine"},
	} {
		got := explainStart(server, fmt.Errorf("node: %w", test.err))
		require.ErrorContains(t, got, test.want)
		require.ErrorIs(t, got, test.err, "and what the system said")
	}
	for _, err := range []error{atFile(errors.New("what nobody knows")), atFile(syscall.EBADF), atPort(80, syscall.EBADF), errors.New("else")} {
		require.Equal(t, err, explainStart(server, err), "nothing is made up")
	}
}

func TestADirectoryThatMayNotBeReadIsSaidInWords(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "/var/lib/tidemark/.lock", Err: syscall.EACCES}
	err := explainStart(config.Server{DataDir: "/var/lib/tidemark"}, fmt.Errorf("node: opening the data directory: %w", denied))
	require.EqualError(t, err, "no permission in the data directory /var/lib/tidemark; fix its owner or mode, "+
		"or name another with --data-dir: node: opening the data directory: open /var/lib/tidemark/.lock: permission denied")
	require.ErrorIs(t, err, fs.ErrPermission)
}
