package faultstore

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tidemark-io/tidemark/objstore"
)

// Op is one call.
type Op struct {
	// Kind is the method.
	Kind objstore.Op
	// Index counts all calls of the wrapper, from 0.
	Index int
	// Key is the object's key, or the prefix of a listing.
	Key string
	// Keys are those of a delete.
	Keys []string
	// Off is where a range read begins.
	Off int64
	// Len is the number of bytes of a put, write or range read, and the limit of a listing.
	Len int64
	// Token is that of a listing.
	Token string
}

// String describes the call without its index, as in a trace: "put-if-absent wal/0 +109".
func (o Op) String() string {
	switch o.Kind {
	case objstore.OpPut, objstore.OpPutIfAbsent, objstore.OpWrite:
		return fmt.Sprintf("%s %s +%d", o.Kind, o.Key, o.Len)
	case objstore.OpReadRange:
		return fmt.Sprintf("%s %s %d+%d", o.Kind, o.Key, o.Off, o.Len)
	case objstore.OpDelete:
		return fmt.Sprintf("%s %s", o.Kind, strings.Join(o.Keys, " "))
	case objstore.OpList:
		text := fmt.Sprintf("%s %s*", o.Kind, o.Key)
		if o.Len != 0 {
			text += fmt.Sprintf(" limit %d", o.Len)
		}
		if o.Token != "" {
			text += fmt.Sprintf(" after %s", o.Token)
		}
		return text
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Key)
}

// IsWrite reports whether the call changes, or may change, the contents of the store.
func (o Op) IsWrite() bool {
	switch o.Kind {
	case objstore.OpPut, objstore.OpPutIfAbsent, objstore.OpCreate, objstore.OpWrite, objstore.OpFinish, objstore.OpAbort,
		objstore.OpDelete:
		return true
	}
	return false
}

// Trace is a record of calls, one line each, in the order in which they ended.
type Trace struct {
	keep func(Op) bool

	mu    sync.Mutex
	lines []string
}

// Trace starts to record the calls that match, all if match is nil.
func (s *Store) Trace(match func(Op) bool) *Trace {
	t := &Trace{keep: match}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.traces = append(s.mu.traces, t)
	return t
}

func (t *Trace) note(op Op, err error) {
	if t.keep != nil && !t.keep(op) {
		return
	}
	line := op.String()
	if err != nil {
		line += ": " + cause(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

// cause is the class of an error, or all of it if it has none.
func cause(err error) string {
	for _, class := range classes {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	return err.Error()
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

// Reset forgets what was recorded and continues.
func (t *Trace) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = nil
}
