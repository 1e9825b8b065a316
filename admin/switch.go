package admin

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// Switch is a setting with a few possible words that can be changed while the node runs. Get and Set are safe for
// concurrent use.
type Switch struct {
	Words []string
	Get   func() string
	Set   func(word string) // one of Words
}

// switchAnswer is the body of an answer about a switch.
type switchAnswer struct {
	Detail string `json:"detail"`
}

// maxWordBytes is longer than any word.
const maxWordBytes = 64

// readWord reads a body that must be one of some words, ignoring case.
func readWord(w http.ResponseWriter, r *http.Request, words []string) (string, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWordBytes))
	if err != nil {
		return "", err
	}
	word := strings.ToLower(strings.TrimSpace(string(body)))
	if !slices.Contains(words, word) {
		return "", fmt.Errorf("%q is not one of %s", word, strings.Join(words, ", "))
	}
	return word, nil
}

func getSwitch(s *Switch) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, switchAnswer{s.Get()})
	})
}

func putSwitch(s *Switch, name string, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wanted, err := readWord(w, r, s.Words)
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
