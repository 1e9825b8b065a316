package admin

import (
	"encoding/json"
	"net/http"
)

// healthAnswer is the body of /healthz.
type healthAnswer struct {
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
}

func health(status Status) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := status.Health(); err != nil {
			answer(w, http.StatusServiceUnavailable, healthAnswer{Error: err.Error()})
			return
		}
		answer(w, http.StatusOK, healthAnswer{Healthy: true})
	})
}

func ready(status Status) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		readiness := status.Readiness()
		code := http.StatusOK
		if !readiness.Ready {
			code = http.StatusServiceUnavailable
		}
		answer(w, code, readiness)
	})
}

// answer writes a JSON body. A reader that has gone away is not an error.
func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
