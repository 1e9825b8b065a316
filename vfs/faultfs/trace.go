package faultfs

import (
	"fmt"
	"strings"
	"sync"
)

// Trace is a record of calls, one line each, in the order in which they ended.
type Trace struct {
	keep func(Op) bool

	mu    sync.Mutex
	lines []string
}

// Trace starts to record the calls that match, all if match is nil.
func (f *FS) Trace(match func(Op) bool) *Trace {
	t := &Trace{keep: match}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.traces = append(f.mu.traces, t)
	return t
}

// note records a call that has ended.
func (t *Trace) note(op Op, err error) {
	if t.keep != nil && !t.keep(op) {
		return
	}
	line := op.String()
	if err != nil {
		line = fmt.Sprintf("%s: %v", line, cause(err))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// cause strips the names that the line has already.
func cause(err error) error {
	for {
		wrapped, ok := err.(interface{ Unwrap() error })
		if !ok || wrapped.Unwrap() == nil {
			return err
		}
		err = wrapped.Unwrap()
	}
}

// String returns what was recorded since the start or the last Reset. Every line ends with a newline.
func (t *Trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return ""
	}
	return strings.Join(t.lines, "\n") + "\n"
}

// Reset forgets what was recorded; recording continues.
func (t *Trace) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = nil
}
