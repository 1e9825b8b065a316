package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// startLimit bounds how long a server may take from its start to its first answer.
const startLimit = 90 * time.Second

// Server is one server, running or not. Its methods are for one goroutine.
type Server struct {
	name    string
	addr    string
	http    string
	dataDir string
	command func() *exec.Cmd
	// ask is a request that the server answers once it serves.
	ask func(ctx context.Context) error

	cmd    *exec.Cmd
	exited chan struct{} // closed once the running process was reaped
	result error         // of the process; valid once exited is closed
	log    *tail
}

// Addr returns the HOST:PORT at which clients find the server. It stays the same over restarts.
func (s *Server) Addr() string { return s.addr }

// HTTPAddr returns the HOST:PORT at which tidemark answers administrators. Kafka has none.
func (s *Server) HTTPAddr() string { return s.http }

// DataDir returns the directory that holds all data, at any depth.
func (s *Server) DataDir() string { return s.dataDir }

// PID returns the process id of the running server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Output returns the end of what the server printed since it was last started.
func (s *Server) Output() string { return s.log.String() }

// Start runs the server and returns once it answers a client.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
	if err := s.answers(ctx); err != nil {
		err = fmt.Errorf("%s does not answer at %s: %w; it printed:\n%s", s.name, s.addr, err, s.Output())
		return errors.Join(err, s.Kill())
	}
	return nil
}

// Launch runs the server and does not wait for it to answer.
func (s *Server) Launch() error {
	s.log = &tail{}
	cmd := s.command()
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	exited := make(chan struct{})
	go func() {
		runtime.LockOSThread() // Pdeathsig fires when the thread that started the process ends
		err := cmd.Start()
		started <- err
		if err == nil {
			s.result = cmd.Wait()
			close(exited)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.cmd, s.exited = cmd, exited
	return nil
}

// answers blocks until the server answers.
func (s *Server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-s.exited:
			return fmt.Errorf("it ended: %w", s.result)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// namesItself returns a request to a Kafka server at an address, which succeeds when it names itself as its only broker.
func namesItself(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0), kgo.DialTimeout(time.Second))
		if err != nil {
			return err
		}
		defer c.Close()
		meta, err := kadm.NewClient(c).BrokerMetadata(ctx)
		if err == nil && len(meta.Brokers) == 0 {
			err = errors.New("it names no broker")
		}
		return err
	}
}

// Stop asks the server to end, with SIGTERM, and waits until it has. It returns an error if the server reports a failure
// or is still running when ctx ends.
func (s *Server) Stop(ctx context.Context) error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	select {
	case <-s.exited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s does not stop: %w; it printed:\n%s", s.name, ctx.Err(), s.Output()), s.Kill())
	}
	s.cmd = nil
	if code := exitCode(s.result); code != 0 && code != 128+int(syscall.SIGTERM) { // a JVM answers SIGTERM with 143
		return fmt.Errorf("%s ended badly: %w; it printed:\n%s", s.name, s.result, s.Output())
	}
	return nil
}

// Kill ends the server with SIGKILL, as kill -9 does, and waits until it is gone.
func (s *Server) Kill() error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	<-s.exited
	s.cmd = nil
	return nil
}

// Dump ends the server with SIGQUIT, upon which Go and Java programs print their threads' stacks, and returns the end of
// its output.
func (s *Server) Dump() string {
	if s.cmd == nil {
		return "not running"
	}
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		return err.Error()
	}
	select {
	case <-s.exited:
	case <-time.After(time.Second): // a JVM prints and continues
	}
	return s.Output()
}

// Alive returns an error that says how the server ended if it is no longer running.
func (s *Server) Alive() error {
	select {
	case <-s.exited:
		return fmt.Errorf("%s ended: %v; it printed:\n%s", s.name, s.result, s.Output())
	default:
		return nil
	}
}

// Wait blocks until the server has ended by itself and returns its exit status, or ctx's error.
func (s *Server) Wait(ctx context.Context) (code int, err error) {
	select {
	case <-s.exited:
		s.cmd = nil
		return exitCode(s.result), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s goes on: %w; it printed:\n%s", s.name, ctx.Err(), s.Output())
	}
}

// PartitionDir returns the directory of one partition, wherever under the data directory the server keeps it.
func (s *Server) PartitionDir(topic string, partition int32) (string, error) {
	name := fmt.Sprintf("%s-%d", topic, partition)
	found := ""
	err := filepath.WalkDir(s.dataDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			found = path
			return filepath.SkipAll
		}
		return err
	})
	if err == nil && found == "" {
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", fmt.Errorf("%s: directory %s under %s: %w", s.name, name, s.dataDir, err)
	}
	return found, nil
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		return -1
	}
}

// freeAddr returns a loopback HOST:PORT that was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// tail keeps the last part of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 256 << 10

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailBytes; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
