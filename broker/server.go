package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/internal/budget"
	"github.com/tidemark-io/tidemark/internal/lazymem"
	"github.com/tidemark-io/tidemark/internal/poison"
)

// Server serves Kafka clients. Create one with [New], give it listeners with [Server.Serve], end it with
// [Server.Shutdown]. All methods are safe for concurrent use.
type Server struct {
	options  Options
	events   Events
	backend  Backend
	groups   Groups
	apis     map[int16]*api // by key
	sessions *sessionCache
	buffers  buffers
	bodies   *lazymem.Pool  // of requests that do not fit the buffer of their connection
	large    *intake        // bytes of requests above largeRequest
	produce  budgets        // of Produce requests
	control  budgets        // of all others
	answers  *budget.Budget // bytes of answers under construction that may be much larger than their requests

	produceRequests sync.Pool // of *kmsg.ProduceRequest

	conns    sync.WaitGroup
	stopping chan struct{} // closed by stop

	mu struct {
		sync.Mutex
		listeners map[net.Listener]struct{}
		open      map[*conn]struct{}
		perIP     map[string]int
		lastID    uint64
		stopped   bool
	}
}

// New returns a server that does not listen yet. It fails when an option is out of range.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		buffers: buffers{poison: poison.On},
		options: o,
		events:  o.Events,
		backend: o.Backend,
		groups:  o.Groups,
		apis:    make(map[int16]*api),
		sessions: newSessionCache(max(o.MaxIncrementalFetchSessions, 0), o.QueuedMaxRequestBytes/4/int64(fetchPartitionSize), func() int {
			return int(partitionsIn(o.Backend.Topics().All()))
		}),
		bodies:   lazymem.New(o.QueuedMaxRequestBytes / 16),
		large:    newIntake(o.QueuedMaxRequestBytes / 2),
		produce:  budgets{newIntake(o.QueuedMaxRequestBytes / 8), budget.New(o.QueuedMaxRequestBytes / 8)},
		control:  budgets{newIntake(o.QueuedMaxRequestBytes / 8), budget.New(o.QueuedMaxRequestBytes / 8)},
		answers:  budget.New(o.QueuedMaxRequestBytes / 8),
		stopping: make(chan struct{}),
	}
	for _, a := range apiTable() {
		s.apis[a.key] = &a
	}
	s.mu.listeners = make(map[net.Listener]struct{})
	s.mu.open = make(map[*conn]struct{})
	s.mu.perIP = make(map[string]int)
	return s, nil
}

// largeRequest is the size in bytes above which requests have a budget of their own. Few clients send any, and those that
// announce one and do not send it must not hold up the rest.
const largeRequest = 2 << 20

// budgets bound the memory of a class of requests. A holder of a share of decoded also has one of bytes, or of Server.large,
// and waits only for Server.answers, whose holders wait for nothing. So no two requests wait for each other.
type budgets struct {
	bytes   *intake        // of request bodies
	decoded *budget.Budget // of what they are decoded to
}

// budgetsOf returns the budget of a request's bytes and that of what it is decoded to.
func (s *Server) budgetsOf(a *api, size int) (bytes *intake, decoded *budget.Budget) {
	b := &s.control
	if a.key == produceKey {
		b = &s.produce
	}
	if int64(size) > min(largeRequest, b.bytes.capacity) {
		return s.large, b.decoded
	}
	return b.bytes, b.decoded
}

// Serve accepts connections on l and serves each on goroutines of its own. It returns nil after [Server.Shutdown], and an
// error when the listener fails for good; open connections then stay open. Temporary failures to accept, such as too many
// open files, are reported and retried. Serve closes l when it returns. Several listeners may be served at the same time.
func (s *Server) Serve(l net.Listener) error {
	if !s.addListener(l) {
		_ = l.Close() // it never accepted anyone
		return nil
	}
	defer s.removeListener(l)

	var pause time.Duration
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.accept(nc, l.Addr())
			continue
		}
		if s.isStopped() {
			return nil
		}
		s.events.AcceptFailed(l.Addr(), err)
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("listener %s: %w", l.Addr(), err)
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(pause):
		case <-s.stopping:
			return nil
		}
	}
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped {
		return false
	}
	s.mu.listeners[l] = struct{}{}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	delete(s.mu.listeners, l)
	s.mu.Unlock()
	_ = l.Close() // it was closed before, or has failed
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stopped
}

// accept starts serving a connection, or closes it when it is above a limit.
func (s *Server) accept(nc net.Conn, listener net.Addr) {
	c, refused := s.addConn(nc, listener)
	if c == nil {
		if refused.Limit == "" {
			resetOnClose(nc) // the server is stopped; see conn.hangUp
		}
		_ = nc.Close() // nothing was exchanged
		if refused.Limit != "" {
			s.events.ConnectionRefused(refused)
		}
		return
	}
	unpace(nc)
	go func() {
		defer s.conns.Done()
		closed := c.serve()
		s.removeConn(c) // before anybody hears of it: whoever connects because of that is not refused
		s.events.ConnectionClosed(closed)
	}()
}

// addConn registers a connection. It returns nil when the server is stopped or a limit is reached; refused has a Limit
// only in the latter case.
func (s *Server) addConn(nc net.Conn, listener net.Addr) (c *conn, refused ConnectionRefused) {
	ip := hostOf(nc.RemoteAddr())
	nodes := s.backend.NodeConfigs()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped {
		return nil, ConnectionRefused{}
	}
	refused = ConnectionRefused{Local: nc.LocalAddr(), Remote: nc.RemoteAddr()}
	if n := nodes.limit(maxConnections, s.options.MaxConnections); n > 0 && len(s.mu.open) >= n {
		refused.Limit, refused.Open = maxConnections, len(s.mu.open)
		return nil, refused
	}
	if n := nodes.limit(maxConnectionsPerIP, s.options.MaxConnectionsPerIP); n > 0 && s.mu.perIP[ip] >= n {
		refused.Limit, refused.Open = maxConnectionsPerIP, s.mu.perIP[ip]
		return nil, refused
	}
	s.mu.lastID++
	c = newConn(s, nc, listener, s.mu.lastID)
	s.mu.open[c] = struct{}{}
	s.mu.perIP[ip]++
	s.conns.Add(1)
	return c, ConnectionRefused{}
}

func (s *Server) removeConn(c *conn) {
	ip := hostOf(c.nc.RemoteAddr())
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.open, c)
	if s.mu.perIP[ip]--; s.mu.perIP[ip] == 0 {
		delete(s.mu.perIP, ip)
	}
}

func hostOf(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return a.String()
}

// Shutdown ends the server. It closes the listeners and reads no further request; requests that were read are executed
// and answered, parked fetches immediately with what is available. A connection is closed after its last answer. If ctx
// ends first, the remaining connections are cut off, and the error is the context's. Either way Shutdown returns when
// every goroutine of the server has ended. The backend and the logs must work until then.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.bodies.Close()
	for _, c := range s.stop() {
		c.stopReading()
	}
	ended := make(chan struct{})
	go func() {
		s.conns.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.openConns() {
		c.end(ClosedShutdown, context.Cause(ctx))
		c.hangUp()
	}
	<-ended
	return context.Cause(ctx)
}

// stop closes the listeners and returns the connections that are open. No connection is added after it.
func (s *Server) stop() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.stopped {
		s.mu.stopped = true
		close(s.stopping)
	}
	for l := range s.mu.listeners {
		_ = l.Close() // Serve sees it and returns
	}
	return s.openLocked()
}

func (s *Server) openConns() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.openLocked()
}

func (s *Server) openLocked() []*conn {
	open := make([]*conn, 0, len(s.mu.open))
	for c := range s.mu.open {
		open = append(open, c)
	}
	return open
}
