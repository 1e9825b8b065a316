package admin

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheStatusIsJSON(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := Overview{
		Version: "v1.2.3", Cluster: "c", Node: 1, Started: began, Now: began.Add(time.Minute), Healthy: true,
		Readiness: Readiness{Ready: true, Phase: "serving", Node: 1, Warnings: []string{"the disk is nearly full"}},
		Listeners: []Listener{{Name: "kafka", Address: "127.0.0.1:9092", Advertised: "broker:9092"}},
		Disk:      Disk{Free: 10, Total: 20, Reserve: 5},
		Topics:    []Topic{{Name: "orders", Partitions: 2, Offline: 1, Records: 7, Bytes: 70, WrittenRecords: 3, WrittenBytes: 30}},
		Groups:    []Group{{Name: "billing", State: "Stable", Members: 2, Lag: 5, MaxLag: 4}},
	}
	code, body := get(t, Options{Status: fixedStatus{overview: o}}, "/status")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{
		"version":"v1.2.3","cluster":"c","node":1,"started":"2026-03-01T12:00:00Z","now":"2026-03-01T12:01:00Z","healthy":true,
		"readiness":{"ready":true,"phase":"serving","node":1,"warnings":["the disk is nearly full"]},
		"listeners":[{"name":"kafka","address":"127.0.0.1:9092","advertised":"broker:9092"}],
		"disk":{"free":10,"total":20,"reserve":5},
		"topics":[{"name":"orders","partitions":2,"offline":1,"records":7,"bytes":70,"written_records":3,"written_bytes":30}],
		"groups":[{"name":"billing","state":"Stable","members":2,"lag":5,"max_lag":4}]}`, body)
}

func TestThePageHoldsAllThatItNeeds(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "http://10.0.0.1:9180/", nil)
	w := httptest.NewRecorder()
	handler(Options{Status: fixedStatus{}}).ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Regexp(t, `^default-src 'none'; connect-src 'self'; .*style-src 'sha256-[^']{44}'; script-src 'sha256-[^']{44}'$`,
		w.Header().Get("Content-Security-Policy"))
	page := w.Body.String()
	for _, reference := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		require.True(t, strings.HasPrefix(reference[1], "/") || reference[1] == "data:,", "the page loads %s", reference[1])
	}
	require.NotContains(t, page, "http://")
	require.NotContains(t, page, "https://")
	require.NotContains(t, page, "innerHTML", "names of topics are text, never markup")
	require.Equal(t, 1, strings.Count(page, "<style"))
	require.Equal(t, 1, strings.Count(page, "<script"))
}

func TestWhatIsNoPageIsNotFound(t *testing.T) {
	code, _ := get(t, Options{Status: fixedStatus{}}, "/index.html")
	require.Equal(t, http.StatusNotFound, code)
}
