package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fixedStatus struct {
	health    error
	readiness Readiness
	overview  Overview
}

func (s fixedStatus) Health() error        { return s.health }
func (s fixedStatus) Readiness() Readiness { return s.readiness }
func (s fixedStatus) Overview() Overview   { return s.overview }

// get asks the handler as a caller on this machine would.
func get(t *testing.T, o Options, path string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9644"+path, nil)
	r.RemoteAddr = "127.0.0.1:50000"
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	handler(o).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestHealthIsGoodUnlessTheNodeSaysOtherwise(t *testing.T) {
	code, body := get(t, Options{Status: fixedStatus{}}, "/healthz")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"healthy":true}`, body)

	code, body = get(t, Options{Status: fixedStatus{health: errors.New("metadata is gone")}}, "/healthz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.JSONEq(t, `{"healthy":false,"error":"metadata is gone"}`, body)
}

func TestF60_RecoveryIsHealthyAndNotReadyAndTellsHowFarItIs(t *testing.T) {
	status := fixedStatus{readiness: Readiness{Phase: "opening logs", Done: 17, Total: 100, Node: 1}}

	code, _ := get(t, Options{Status: status}, "/healthz")
	require.Equal(t, http.StatusOK, code)

	code, body := get(t, Options{Status: status}, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.JSONEq(t, `{"ready":false,"phase":"opening logs","done":17,"total":100,"node":1}`, body)
}

func TestAReadyNodeNamesThePartitionsWhoseDiskFailed(t *testing.T) {
	status := fixedStatus{readiness: Readiness{Ready: true, Phase: "serving", Failed: []string{"orders-3"}}}
	code, body := get(t, Options{Status: status}, "/readyz")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"ready":true,"phase":"serving","node":0,"failed":["orders-3"]}`, body)
}

func TestMetricsComeFromTheGivenHandler(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "tidemark_up 1\n") })
	code, body := get(t, Options{Status: fixedStatus{}, Metrics: metrics}, "/metrics")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "tidemark_up 1\n", body)

	code, _ = get(t, Options{Status: fixedStatus{}}, "/metrics")
	require.Equal(t, http.StatusNotFound, code)
}

func TestProfilesAreForCallersOnThisMachine(t *testing.T) {
	rows := []struct {
		who    string
		change func(*http.Request)
		code   int
	}{
		{"IPv4 loopback", func(*http.Request) {}, http.StatusOK},
		{"IPv6 loopback", func(r *http.Request) { r.RemoteAddr, r.Host = "[::1]:50000", "[::1]:9644" }, http.StatusOK},
		{"by name", func(r *http.Request) { r.Host = "localhost:9644" }, http.StatusOK},
		{"another machine", func(r *http.Request) { r.RemoteAddr = "10.0.0.7:50000" }, http.StatusForbidden},
		{"a browser under a rebound name", func(r *http.Request) { r.Host = "evil.example:9644" }, http.StatusForbidden},
		{"a proxy", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.7") }, http.StatusForbidden},
		{"no address", func(r *http.Request) { r.RemoteAddr = "@" }, http.StatusForbidden},
	}
	for _, row := range rows {
		t.Run(row.who, func(t *testing.T) {
			for _, path := range []string{"/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap?debug=1"} {
				code, _ := get(t, Options{Status: fixedStatus{}}, path, row.change)
				require.Equal(t, row.code, code, path)
			}
		})
	}
}

func TestOnlyReadingIsAllowed(t *testing.T) {
	code, _ := get(t, Options{Status: fixedStatus{}}, "/healthz", func(r *http.Request) { r.Method = http.MethodPost })
	require.Equal(t, http.StatusMethodNotAllowed, code)
}

func TestServeEndsWithoutErrorAtShutdown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(Options{Status: fixedStatus{}})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	client := http.Client{Transport: &http.Transport{}}
	answer, err := client.Get("http://" + l.Addr().String() + "/healthz")
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.JSONEq(t, `{"healthy":true}`, string(body))
	client.CloseIdleConnections()

	require.NoError(t, s.Shutdown(context.Background()))
	require.NoError(t, <-served)
	require.NoError(t, s.Shutdown(context.Background()))
}

func TestShutdownCutsOffWhoDoesNotLetGo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	asked := make(chan struct{})
	stuck := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	s := New(Options{Status: fixedStatus{}, Metrics: stuck})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()

	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	<-asked

	over, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, s.Shutdown(over), context.Canceled)
	require.NoError(t, <-served)
	require.NoError(t, conn.Close())
}
