package twoprocess

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/stretchr/testify/require"
)

// process is a [worker] as the test sees it.
type process struct {
	*exec.Cmd
	w      *world
	stdin  io.WriteCloser
	stderr bytes.Buffer  // may be read once all was read
	more   chan struct{} // a report came
	all    chan struct{} // closed when all was read

	mu    sync.Mutex
	seen  map[what]int
	acked []record
	found map[spot]finding
	end   ending
}

// spot is where a record is.
type spot struct {
	Stream, Base int64
}

// finding is a record that a process found.
type finding struct {
	Count int32
	Sum   string
}

// start starts a process. It ends with the test, if not before.
func (w *world) start(o orders) *process {
	w.Helper()
	o.Place = w.place
	text, err := json.Marshal(o)
	require.NoError(w, err)
	p := &process{
		Cmd: exec.Command(os.Args[0]), w: w, more: make(chan struct{}, 1), all: make(chan struct{}),
		seen: map[what]int{}, found: map[spot]finding{},
	}
	p.Env = append(os.Environ(), ordersVariable+"="+string(text))
	p.Stderr = &p.stderr
	out, err := p.StdoutPipe()
	require.NoError(w, err)
	p.stdin, err = p.StdinPipe()
	require.NoError(w, err)
	require.NoError(w, p.Start())
	go p.read(out)
	w.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// read takes the reports. One that a kill has cut off was not made.
func (p *process) read(out io.Reader) {
	defer close(p.all)
	for in := json.NewDecoder(out); ; {
		var r report
		if in.Decode(&r) != nil {
			return
		}
		p.take(r)
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
}

func (p *process) take(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[r.What]++
	switch r.What {
	case acked:
		p.acked = append(p.acked, r.Record)
	case found:
		p.found[at(r.Record)] = finding{r.Record.Count, r.Sum}
	case ended:
		p.end = r.End
	}
}

func at(r record) spot { return spot{int64(r.Stream), r.Base} }

func (p *process) count(of what) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[of]
}

// await waits until the process has reported something so many times.
func (p *process) await(of what, times int) {
	p.w.Helper()
	for p.count(of) < times {
		select {
		case <-p.more:
			if of == acked && p.count(ended) > 0 && p.count(of) < times {
				p.w.Fatalf("it ended: %+v", p.end)
			}
		case <-p.all:
			if p.count(of) < times {
				_ = p.Wait()
				p.w.Fatalf("the process ended before it had %s: %s", of, p.stderr.String())
			}
		case <-p.w.limit.Done():
			p.w.Fatalf("the process has not %s: %s", of, p.dump())
		}
	}
}

// dump ends a process and returns what its goroutines were doing.
func (p *process) dump() string {
	_ = p.Process.Signal(syscall.SIGQUIT)
	<-p.all
	_ = p.Wait()
	return p.stderr.String()
}

// tell has a process take over the node that its orders name.
func (p *process) tell() {
	p.w.Helper()
	_, err := io.WriteString(p.stdin, "it is dead\n")
	require.NoError(p.w, err)
}

// dismiss ends the standard input, upon which a process ends cleanly, and waits for that.
func (p *process) dismiss() {
	p.w.Helper()
	require.NoError(p.w, p.stdin.Close())
	p.await(ended, 1)
	require.Empty(p.w, p.end.Text)
	p.leave()
}

// leave waits until a process that ends has done so well.
func (p *process) leave() {
	p.w.Helper()
	<-p.all
	require.NoError(p.w, p.Wait(), p.stderr.String())
}

// kill ends a process at once, and waits until all that it said was read.
func (p *process) kill() {
	p.w.Helper()
	require.NoError(p.w, p.Process.Kill())
	<-p.all
	require.Error(p.w, p.Wait())
}

// pause stops a process and returns when it stands still.
func (p *process) pause() {
	p.w.Helper()
	require.NoError(p.w, p.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		require.NoError(p.w, err)
		require.True(p.w, status.Stopped())
		return
	}
}

func (p *process) resume() {
	p.w.Helper()
	require.NoError(p.w, p.Process.Signal(syscall.SIGCONT))
}
