package faultfs

import (
	"path"
	"strings"
	"sync/atomic"
)

// Fault says what happens to one call. The zero value lets it pass.
type Fault struct {
	// Hook runs before the call, in its goroutine. It may block, which delays the call, and may use the file system.
	Hook func()
	// Err makes the call fail. The error that the caller sees wraps it with the call and the path.
	Err error
	// Short is how many bytes of a failing read or write are still done before Err.
	Short int64
	// After lets the whole call happen and then fails it with Err, as when the answer is lost.
	After bool
	// Drop lets a file whose Sync fails forget that it has anything to sync, as Linux does: the bytes stay readable, a later
	// Sync returns nil without writing them, and they are gone after a power cut. Files of package memfs can do that; it
	// changes nothing on others.
	Drop bool
}

// Injector decides about each call before it happens. It must be safe for concurrent use.
type Injector func(Op) Fault

// FailNth fails the n-th call that it sees, counted from 0, once.
func FailNth(n int, err error) Injector {
	var seen atomic.Int64
	return func(Op) Fault {
		if seen.Add(1)-1 == int64(n) {
			return Fault{Err: err}
		}
		return Fault{}
	}
}

// FailFrom fails the n-th call that it sees, counted from 0, and every later one: the device is gone.
func FailFrom(n int, err error) Injector {
	var seen atomic.Int64
	return func(Op) Fault {
		if seen.Add(1)-1 >= int64(n) {
			return Fault{Err: err}
		}
		return Fault{}
	}
}

// FailMatching fails every call of one kind on the files that match the glob; see [Matching].
func FailMatching(kind Kind, glob string, err error) Injector {
	return When(Matching(kind, glob), Always(Fault{Err: err}))
}

// Always answers every call with the same fault.
func Always(fault Fault) Injector {
	return func(Op) Fault { return fault }
}

// When shows an injector only the calls that match, so that When(Writes, FailNth(n, err)) fails the n-th write.
func When(match func(Op) bool, inject Injector) Injector {
	return func(op Op) Fault {
		if match(op) {
			return inject(op)
		}
		return Fault{}
	}
}

// Writes matches the calls that change the file system or make changes durable.
func Writes(op Op) bool { return op.Kind.IsWrite() }

// Matching matches the calls of one kind on names that match the glob, whose language is that of [path.Match]. A glob
// without a slash is checked against the last part of the name. A rename or link matches with either name. Matching panics
// on a malformed glob.
func Matching(kind Kind, glob string) func(Op) bool {
	matches := func(name string) bool {
		if !strings.Contains(glob, "/") {
			name = path.Base(name)
		}
		ok, err := path.Match(glob, name)
		if err != nil {
			panic("faultfs: glob " + glob + ": " + err.Error())
		}
		return ok
	}
	matches("")
	return func(op Op) bool {
		return op.Kind == kind && (matches(op.Name) || op.NewName != "" && matches(op.NewName))
	}
}

// First shows every injector each call and answers with the first fault that is not zero.
func First(injectors ...Injector) Injector {
	return func(op Op) Fault {
		var first Fault
		found := false
		for _, inject := range injectors {
			f := inject(op)
			if !found && (f.Err != nil || f.Hook != nil) {
				first, found = f, true
			}
		}
		return first
	}
}
