package admin

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// levels are the words that a level may be.
var levels = []string{"debug", "info", "warn", "error"}

// maxLevelBytes is more than any of them has.
const maxLevelBytes = 64

// levelAnswer is the body of /loglevel.
type levelAnswer struct {
	Level string `json:"level"`
}

func getLevel(level *slog.LevelVar) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, levelAnswer{levelName(level)})
	})
}

func putLevel(level *slog.LevelVar, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLevelBytes))
		wanted := strings.ToLower(strings.TrimSpace(string(body)))
		var to slog.Level
		if err == nil && !slices.Contains(levels, wanted) {
			err = fmt.Errorf("%q is no level: expected one of %s", wanted, strings.Join(levels, ", "))
		}
		if err == nil {
			err = to.UnmarshalText([]byte(wanted))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		was := levelName(level)
		level.Set(to)
		if log != nil {
			log.Log(r.Context(), max(to, slog.LevelInfo), "log level changed", "from", was, "to", wanted)
		}
		answer(w, http.StatusOK, levelAnswer{wanted})
	})
}

func levelName(level *slog.LevelVar) string { return strings.ToLower(level.Level().String()) }
