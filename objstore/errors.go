package objstore

import (
	"errors"
	"fmt"
	"strings"
)

// The classes of errors. They differ in what a caller should do.
var (
	// ErrExists is a put-if-absent, or an upload at its end, whose key is taken.
	ErrExists = errors.New("object exists")
	// ErrNotFound is a key without an object. A missing bucket is ErrDenied: waiting does not make it appear.
	ErrNotFound = errors.New("object not found")
	// ErrThrottled is a store that asks its callers to slow down: retry later and less often.
	ErrThrottled = errors.New("object store is throttling")
	// ErrTransient is a store that could not be reached, had an internal error, or is full: retry later.
	ErrTransient = errors.New("object store failed for now")
	// ErrDenied is a call that the store refuses to this caller: the credentials, the bucket's policy, or a bucket that
	// does not exist. Retrying does not help.
	ErrDenied = errors.New("object store denied access")
	// ErrInvalid is an invalid call: a malformed key, or a range outside the object.
	ErrInvalid = errors.New("invalid object request")
)

// ErrClosed is the error of calls on a closed store. It is final.
var ErrClosed = errors.New("object store is closed")

// ErrEnded is the error of calls on an [Upload] that has been finished or aborted.
var ErrEnded = errors.New("upload has ended")

// Op is a method of [Store] or [Upload], as it is called in errors and traces.
type Op string

// The calls of a store.
const (
	OpPut         Op = "put"
	OpPutIfAbsent Op = "put-if-absent"
	OpCreate      Op = "create"
	OpWrite       Op = "write"
	OpFinish      Op = "finish"
	OpAbort       Op = "abort"
	OpGet         Op = "get"
	OpReadRange   Op = "read"
	OpHead        Op = "head"
	OpList        Op = "list"
	OpDelete      Op = "delete"
)

// Error is a call of a store that failed.
type Error struct {
	// Op is the call.
	Op Op
	// Store names the store, without secrets.
	Store string
	// Key is the object's key; for a listing its prefix.
	Key string
	// Class is one of the package's classes, or nil if the error has none.
	Class error
	// Err is the cause as seen by the driver; nil if the class says everything.
	Err error
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "object store %s: %s %q", e.Store, e.Op, e.Key)
	if e.Class != nil && !errors.Is(e.Err, e.Class) { // or the cause says it itself
		fmt.Fprintf(&b, ": %v", e.Class)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the class and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Class, e.Err} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// DeleteError says which objects of a [Store.Delete] were not removed, in the order of the request. It matches the
// classes of all of them.
type DeleteError struct {
	Failed []*Error
}

func (e *DeleteError) Error() string {
	if len(e.Failed) == 1 {
		return e.Failed[0].Error()
	}
	return fmt.Sprintf("%d objects were not deleted, the first: %v", len(e.Failed), e.Failed[0])
}

// Unwrap returns the errors of all keys.
func (e *DeleteError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f
	}
	return errs
}

// Retriable reports whether the same call may succeed later without intervention: it was throttled or failed
// temporarily. For a [DeleteError] it reports whether that is so for every key that failed. A context that ended is not
// retriable.
func Retriable(err error) bool {
	var many *DeleteError
	if errors.As(err, &many) {
		for _, f := range many.Failed {
			if !Retriable(f) {
				return false
			}
		}
		return len(many.Failed) > 0
	}
	return errors.Is(err, ErrThrottled) || errors.Is(err, ErrTransient)
}
