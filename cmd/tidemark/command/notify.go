package command

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// notifySocket is the variable in which a service manager, such as systemd, names the socket where it wants to be told the
// server's state. The protocol is that of sd_notify(3): datagrams of KEY=VALUE lines to a Unix socket, whose name begins with
// @ when it is not in the file system.
const notifySocket = "NOTIFY_SOCKET"

// A long start-up must not look hung, so the manager is regularly asked for more time. Recovery after a crash takes as long
// as there is to read, and a restart in the middle would only begin it again.
const (
	extendEvery = 10 * time.Second
	extendBy    = time.Minute
)

// serviceManager tells the service manager the server's state. Nothing depends on whether there is one; the first message
// that cannot be sent is logged.
type serviceManager struct {
	conn net.Conn // nil: there is none
	log  *slog.Logger

	mu     sync.Mutex
	status string
	failed bool

	stop  chan struct{} // closed when start-up is over
	ended sync.WaitGroup
	once  sync.Once
}

// newServiceManager connects to the manager behind a socket and asks it for more time until ready or close; an empty name is
// no manager.
func newServiceManager(socket string, log *slog.Logger) *serviceManager {
	m := &serviceManager{log: log, status: "starting", stop: make(chan struct{})}
	if socket == "" {
		return m
	}
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		log.Warn("the service manager cannot be reached", "error", err)
		return m
	}
	m.conn = conn
	clock := time.NewTicker(extendEvery)
	m.ended.Go(func() {
		defer clock.Stop()
		m.extend(clock.C)
	})
	return m
}

// extend asks for time at once and at each tick, and says how far start-up is.
func (m *serviceManager) extend(tick <-chan time.Time) {
	for {
		m.mu.Lock()
		status := m.status
		m.mu.Unlock()
		m.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extendBy.Microseconds()), "STATUS="+status)
		select {
		case <-m.stop:
			return
		case <-tick:
		}
	}
}

// progress notes how far start-up is. The manager is told at the next tick.
func (m *serviceManager) progress(phase string, done, total int) {
	status := phase
	if total > 0 {
		status = fmt.Sprintf("%s: %d of %d", phase, done, total)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status = status
}

// ready says that clients are served.
func (m *serviceManager) ready() {
	m.settle()
	m.tell("READY=1", "STATUS=serving")
}

// stopping says that the server ends, by itself or because it was asked to.
func (m *serviceManager) stopping() { m.tell("STOPPING=1", "STATUS=stopping") }

// close ends the connection.
func (m *serviceManager) close() {
	m.settle()
	if m.conn != nil {
		_ = m.conn.Close() // there is nobody left to tell
	}
}

// settle ends the requests for time.
func (m *serviceManager) settle() {
	m.once.Do(func() { close(m.stop) })
	m.ended.Wait()
}

func (m *serviceManager) tell(lines ...string) {
	if m.conn == nil {
		return
	}
	_, err := m.conn.Write([]byte(strings.Join(lines, "\n")))
	m.mu.Lock()
	first := err != nil && !m.failed
	m.failed = m.failed || err != nil
	m.mu.Unlock()
	if first {
		m.log.Warn("the service manager cannot be reached", "error", err)
	}
}
