package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// Status is what the server asks of the node. The methods are safe for concurrent use, return at once, and may be called
// before the node is ready and while it stops.
type Status interface {
	// Health returns nil while the node can do its work, and otherwise why a restart is needed. Start-up, recovery and an
	// orderly stop are healthy.
	Health() error

	// Readiness reports whether clients are served.
	Readiness() Readiness

	// Overview describes the node and what it hosts. It may take as long as it takes to walk over all partitions in
	// memory.
	Overview() Overview
}

// Readiness reports whether a node serves clients, and, if not yet, what it waits for.
type Readiness struct {
	Ready bool   `json:"ready"`
	Phase string `json:"phase"`           // current activity, e.g. "opening logs"
	Done  int    `json:"done,omitempty"`  // steps of the phase that are done
	Total int    `json:"total,omitempty"` // steps of the phase; 0 when it has none
	Node  int32  `json:"node"`
	// Opening names some of the partitions that are being opened: those whose recovery has taken longest.
	Opening []string `json:"opening,omitempty"`
	// Failed names the partitions that accept no records because their disk failed.
	Failed []string `json:"failed,omitempty"`
	// Warnings are sentences about what clients are refused although the node is ready, such as a disk that is nearly
	// full.
	Warnings []string `json:"warnings,omitempty"`
}

// Options configure a [Server].
type Options struct {
	Status  Status       // not nil
	Metrics http.Handler // answers /metrics; nil if there are none

	// LogLevel is the level of the node's logger, read and changed at /loglevel; nil removes that page.
	LogLevel *slog.LevelVar

	// GroupMetrics is how detailed the metrics of consumer groups are, read and changed at /groupmetrics; nil removes
	// that page.
	GroupMetrics *Switch

	// Log gets a line for each change of LogLevel and GroupMetrics; nil logs none.
	Log *slog.Logger
}

// Limits of the server. A scrape of a node with many partitions is some megabytes; a CPU profile takes thirty seconds, or
// longer on request.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	answerTimeout  = 30 * time.Second
	profileTimeout = 5 * time.Minute
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
)

// Server answers administrators and their tools.
type Server struct {
	http http.Server
}

// New returns a server that serves nothing yet.
func New(o Options) *Server {
	s := &Server{}
	s.http = http.Server{
		Handler:           handler(o),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      profileTimeout, // the longest of all; each handler but the profiles sets its own
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
	return s
}

// Serve accepts connections on l until [Server.Shutdown], and then returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown closes the listeners, finishes answers in progress, and cuts them off when ctx ends. A second call does
// nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", soon(health(o.Status)))
	mux.Handle("GET /readyz", soon(ready(o.Status)))
	mux.Handle("GET /status", soon(overview(o.Status)))
	mux.Handle("GET /{$}", soon(page()))
	if o.LogLevel != nil {
		mux.Handle("GET /loglevel", soon(getLevel(o.LogLevel)))
		mux.Handle("PUT /loglevel", soon(localOnly(putLevel(o.LogLevel, o.Log))))
	}
	if o.GroupMetrics != nil {
		mux.Handle("GET /groupmetrics", soon(getSwitch(o.GroupMetrics)))
		mux.Handle("PUT /groupmetrics", soon(localOnly(putSwitch(o.GroupMetrics, "group metrics", o.Log))))
	}
	if o.Metrics != nil {
		mux.Handle("GET /metrics", soon(o.Metrics))
	}
	mux.Handle("GET /debug/pprof/", localOnly(http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/cmdline", localOnly(http.HandlerFunc(pprof.Cmdline)))
	mux.Handle("GET /debug/pprof/profile", localOnly(http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/symbol", localOnly(http.HandlerFunc(pprof.Symbol)))
	mux.Handle("GET /debug/pprof/trace", localOnly(http.HandlerFunc(pprof.Trace)))
	return mux
}

// soon bounds how long writing an answer may take, so that a stalled reader costs little.
func soon(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A writer without deadlines, as in tests, is not bounded.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		next.ServeHTTP(w, r)
	})
}
