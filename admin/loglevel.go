package admin

import (
	"log/slog"
	"net/http"
	"strings"
)

// levels are the names of the levels.
var levels = []string{"debug", "info", "warn", "error"}

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
		var to slog.Level
		wanted, err := readWord(w, r, levels)
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
