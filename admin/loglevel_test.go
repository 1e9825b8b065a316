package admin

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// putting makes a request a PUT of a body.
func putting(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Method = http.MethodPut
		r.Body = io.NopCloser(strings.NewReader(body))
	}
}

func TestTheLogLevelIsChangedWhileTheServerRuns(t *testing.T) {
	var level slog.LevelVar
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: &level}))
	o := Options{Status: fixedStatus{}, LogLevel: &level, Log: log}

	code, body := get(t, o, "/loglevel")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"level":"info"}`, body)

	code, body = get(t, o, "/loglevel", putting("Debug\n"))
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"level":"debug"}`, body)
	require.Equal(t, slog.LevelDebug, level.Level())
	require.Contains(t, lines.String(), `msg="log level changed" from=info to=debug`)

	code, _ = get(t, o, "/loglevel", putting("error"))
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, slog.LevelError, level.Level())
	require.Contains(t, lines.String(), `level=ERROR msg="log level changed" from=debug to=error`)
}

func TestALevelThatThereIsNotChangesNothing(t *testing.T) {
	for _, body := range []string{"", "loud", "debug+1", "DEBUG INFO", strings.Repeat("x", 100)} {
		var level slog.LevelVar
		code, _ := get(t, Options{Status: fixedStatus{}, LogLevel: &level}, "/loglevel", putting(body))
		require.Equal(t, http.StatusBadRequest, code, body)
		require.Equal(t, slog.LevelInfo, level.Level(), body)
	}
	code, answer := get(t, Options{Status: fixedStatus{}, LogLevel: new(slog.LevelVar)}, "/loglevel", putting("loud"))
	require.Equal(t, http.StatusBadRequest, code)
	require.Equal(t, "\"loud\" is not one of debug, info, warn, error\n", answer)
}

func TestOnlyCallersOnThisMachineChangeTheLogLevel(t *testing.T) {
	var level slog.LevelVar
	o := Options{Status: fixedStatus{}, LogLevel: &level}
	for who, change := range map[string]func(*http.Request){
		"another machine":                func(r *http.Request) { r.RemoteAddr = "10.0.0.7:50000" },
		"a browser under a rebound name": func(r *http.Request) { r.Host = "evil.example:9644" },
		"a proxy":                        func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.7") },
	} {
		code, _ := get(t, o, "/loglevel", putting("debug"), change)
		require.Equal(t, http.StatusForbidden, code, who)
	}
	require.Equal(t, slog.LevelInfo, level.Level())
}

func TestWithoutALogLevelThereIsNoPageForIt(t *testing.T) {
	code, _ := get(t, Options{Status: fixedStatus{}}, "/loglevel")
	require.Equal(t, http.StatusNotFound, code)
}
