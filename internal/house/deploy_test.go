package house

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	require.NoError(t, err)
	return string(text)
}

// instructions returns the instructions of the last stage of a Dockerfile, with continued lines joined.
func instructions(text string) (last []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "FROM ") {
			last = nil
		}
		last = append(last, line)
	}
	return last
}

func TestTheImageHoldsTheBinaryAndRunsItAsNobody(t *testing.T) {
	text := readFile(t, "Dockerfile")
	found := map[string]string{}
	for _, line := range instructions(text) {
		word, rest, _ := strings.Cut(line, " ")
		found[word] = rest
		require.NotEqual(t, "RUN", word, "there is no shell to run it")
		if word == "COPY" {
			require.Contains(t, rest, "--from=build", "nothing of the tree but what was built")
		}
	}
	require.Equal(t, "scratch", found["FROM"])
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, found["USER"], "a name would need a passwd file")
	require.Regexp(t, `^\[".+"\]$`, found["ENTRYPOINT"], "there is no shell to take it apart")
	require.Regexp(t, `^\[".+"\]$`, found["CMD"])
	require.Equal(t, "SIGTERM", found["STOPSIGNAL"])
	data := regexp.MustCompile(`--chown=(\S+) /empty (\S+)`).FindStringSubmatch(text)
	require.NotNil(t, data)
	require.Equal(t, []string{found["USER"], "[\"" + data[2] + "\"]"}, []string{data[1], found["VOLUME"]}, "who runs must own the data")
	require.Contains(t, text, "make build", "the image is built as the binary is")
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, "go.mod"))[1]
	require.Contains(t, text, "golang:"+goVersion+" ", "as go.mod asks for")
}

func TestTheUnitLeavesTimeToStopAndTellsWhenItIsReady(t *testing.T) {
	unit := map[string]string{}
	for line := range strings.Lines(readFile(t, "deploy/systemd/tidemark.service")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			unit[key] = value
		}
	}
	require.Equal(t, "notify", unit["Type"])
	require.Equal(t, "/usr/local/bin/tidemark serve", unit["ExecStart"])
	require.Equal(t, "on-failure", unit["Restart"])
	require.NotEmpty(t, unit["LimitNOFILE"])
	require.Contains(t, readFile(t, "cmd/tidemark/command/serve.go"), "closeTimeout = 20 * time.Second")
	require.Equal(t, "30s", unit["TimeoutStopSec"], "more than closeTimeout")
	for _, hard := range []string{"NoNewPrivileges", "PrivateDevices", "ProtectHome", "RestrictNamespaces", "MemoryDenyWriteExecute"} {
		require.Equal(t, "yes", unit[hard], hard)
	}
	require.Contains(t, unit["RestrictAddressFamilies"], "AF_UNIX", "the service manager is told over one")
}
