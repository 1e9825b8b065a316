package admin

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// Switch is a setting of a few words that can be changed while the node runs. Get and Set are safe for concurrent use.
type Switch struct {
	Words []string
	Get   func() string
	Set   func(word string) // one of Words
}

// switchAnswer is the body of an answer about a switch.
type switchAnswer struct {
	Detail string `json:"detail"`
}

// maxWordBytes is more than any word has.
const maxWordBytes = 64

func getSwitch(s *Switch) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, switchAnswer{s.Get()})
	})
}

func putSwitch(s *Switch, name string, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWordBytes))
		wanted := strings.ToLower(strings.TrimSpace(string(body)))
		if err == nil && !slices.Contains(s.Words, wanted) {
			err = fmt.Errorf("%q is none of %s", wanted, strings.Join(s.Words, ", "))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		was := s.Get()
		s.Set(wanted)
		if log != nil {
			log.Info(name+" changed", "from", was, "to", wanted)
		}
		answer(w, http.StatusOK, switchAnswer{wanted})
	})
}
