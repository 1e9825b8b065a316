package admin

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// groupSwitch is a switch that stands at group.
func groupSwitch() (*Switch, *string) {
	at := "group"
	return &Switch{
		Words: []string{"off", "group", "partition"},
		Get:   func() string { return at }, Set: func(word string) { at = word },
	}, &at
}

func TestU05_HowMuchIsToldOfGroupsIsChangedWhileTheServerRuns(t *testing.T) {
	s, at := groupSwitch()
	var lines bytes.Buffer
	o := Options{Status: fixedStatus{}, GroupMetrics: s, Log: slog.New(slog.NewTextHandler(&lines, nil))}
	code, body := get(t, o, "/groupmetrics")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"detail":"group"}`, body)

	code, body = get(t, o, "/groupmetrics", putting("Partition\n"))
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"detail":"partition"}`, body)
	require.Equal(t, "partition", *at)
	require.Contains(t, lines.String(), `msg="group metrics changed" from=group to=partition`)
}

func TestASwitchIsNotMovedByOtherWordsOrFromElsewhere(t *testing.T) {
	s, at := groupSwitch()
	o := Options{Status: fixedStatus{}, GroupMetrics: s}
	for _, body := range []string{"", "all", strings.Repeat("x", 100)} {
		code, _ := get(t, o, "/groupmetrics", putting(body))
		require.Equal(t, http.StatusBadRequest, code, body)
	}
	code, _ := get(t, o, "/groupmetrics", putting("off"), func(r *http.Request) { r.RemoteAddr = "10.0.0.7:50000" })
	require.Equal(t, http.StatusForbidden, code)
	require.Equal(t, "group", *at)
	code, _ = get(t, Options{Status: fixedStatus{}}, "/groupmetrics")
	require.Equal(t, http.StatusNotFound, code)
}
