package command

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// notifySocket is the variable in which a service manager, such as systemd, names the socket for the server's state. The
// protocol is that of sd_notify(3): datagrams of KEY=VALUE lines to a Unix socket, whose name begins with @ when it is
// not in the file system.
const notifySocket = "NOTIFY_SOCKET"

// A long start-up must not look hung, so the manager is regularly asked for more time. Recovery after a crash takes as
// long as there is data to read, and a restart in the middle would only begin it again.
const (
	extendEvery = 10 * time.Second
	extendBy    = time.Minute
)

// serviceManager reports the server's state to the service manager. Nothing depends on whether there is one; the first
// message that cannot be sent is logged.
type serviceManager struct {
	conn net.Conn // nil if there is none
	log  *slog.Logger

	mu     sync.Mutex
	status string
	failed bool

	stop  chan struct{} // closed when start-up is over
	ended sync.WaitGroup
	once  sync.Once
}

// newServiceManager connects to the manager's socket and asks for more time until ready or close. An empty name means no
// manager.
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

// extend asks for time at once and at each tick, and reports the progress of start-up.
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

// progress records the progress of start-up, to be sent at the next tick.
func (m *serviceManager) progress(phase string, done, total int) {
	status := phase
	if total > 0 {
		status = fmt.Sprintf("%s: %d of %d", phase, done, total)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status = status
}

// ready reports that clients are served.
func (m *serviceManager) ready() {
	m.settle()
	m.tell("READY=1", "STATUS=serving")
}

// stopping reports that the server is stopping.
func (m *serviceManager) stopping() { m.tell("STOPPING=1", "STATUS=stopping") }

// close ends the connection.
func (m *serviceManager) close() {
	m.settle()
	if m.conn != nil {
		_ = m.conn.Close() // nobody is left to notify
	}
}

// settle stops asking for time.
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
