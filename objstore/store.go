// Package objstore defines what Tidemark requires of an object store, and no more: whole objects that appear atomically
// and are never visible in part, a put that fails if the key is taken, range reads, and paged listings.
//
// Drivers: package mem for tests, package dir for a directory that is as durable as the disk below it, package cloud for
// S3, Google Cloud Storage and Azure. Package faultstore wraps any store to fail, delay, reorder, throttle and record
// its calls; package objstoretest has the suite that every driver passes; [Probe] verifies at start-up that a store
// behaves as the suite requires.
//
// # What every store keeps
//
//   - Atomic. A reader sees an object whole, as one put left it, or not at all. So does a listing.
//   - Durable. When a put, a finished upload or a delete returns nil, what it did survives the end of this process and a
//     power cut of this machine.
//   - Consistent. The effect of a call is visible to every call that begins after it returned, in any process,
//     listings included.
//   - Exclusive. Of any number of [Store.PutIfAbsent] calls and of uploads by [Store.Create] for one key, from any number of
//     processes, at most one creates the object.
//
// # Errors
//
// Every error of a store matches, with errors.Is, at most one of [ErrExists], [ErrNotFound], [ErrThrottled],
// [ErrTransient], [ErrDenied], [ErrInvalid], or the context's error when the context ended the call. An error that
// matches none of them is final: the store is closed or broken. It is an [*Error], which names the call, the store and
// the key; those of [Store.Delete] are in a [*DeleteError].
//
// After ErrTransient, ErrThrottled or a context error a call that changes the store has an unknown outcome: what it
// asked for may have happened, or, for a request still under way, may happen later. See [Retriable].
package objstore

import (
	"context"
	"io"
	"time"
)

// Store is one object store, or one prefix of it. All methods are safe for concurrent use and honour their context: a
// call whose context has ended returns soon with an error that matches the context's. Keys are those that [CheckKey]
// accepts; others are [ErrInvalid]. The package's introduction says what is durable when.
type Store interface {
	// String names the store in messages: a URL or path without secrets.
	String() string

	// Put stores an object, replacing any object with the same key. data is not retained. It blocks until the
	// object is durable.
	Put(ctx context.Context, key string, data []byte) error

	// PutIfAbsent is Put, but fails with [ErrExists] and changes nothing if the key is taken. The object that has the
	// key is durable by then; it may be this caller's own, from an earlier attempt whose reply was lost.
	PutIfAbsent(ctx context.Context, key string, data []byte) error

	// Create begins an object that is too large to hold in memory, under a free key: like PutIfAbsent it replaces
	// nothing, which [Upload.Finish] decides. ctx spans the whole upload: when it ends, the upload can no longer be
	// finished. The caller must end the upload by Finish or Abort.
	Create(ctx context.Context, key string) (Upload, error)

	// Get returns all bytes of an object, which the caller owns. [ErrNotFound] if there is none. If the store keeps a
	// checksum, the bytes have been verified against it.
	Get(ctx context.Context, key string) ([]byte, error)

	// ReadRange fills p with the object's bytes from off on. p must not be empty and the range must lie inside the
	// object: otherwise the error is [ErrInvalid] and the content of p is undefined. [ErrNotFound] if there is no object.
	ReadRange(ctx context.Context, key string, p []byte, off int64) error

	// Head describes an object without reading it. [ErrNotFound] if there is none.
	Head(ctx context.Context, key string) (Info, error)

	// List returns a page of the objects whose key begins with Prefix, in the order of the keys' bytes. A key that
	// exists during the whole listing is on exactly one page; one that appears or disappears meanwhile may or may not
	// be.
	List(ctx context.Context, request ListRequest) (Page, error)

	// Delete removes objects. A key without an object counts as removed; no keys is not an error. It tries every key:
	// those that could not be removed are in the [*DeleteError], each with its own error, and all others are gone
	// permanently.
	Delete(ctx context.Context, keys ...string) error

	// Close releases the store. Calls in progress may fail; later ones do, with an error of no class. Closing twice is
	// not an error.
	Close() error
}

// Upload is an object that is being written sequentially. It is for use by one goroutine. Nothing of it is visible
// before Finish returns, whatever happens to the process.
type Upload interface {
	// Write appends p, which is not retained. It may block while earlier parts are sent. An error is final for the
	// upload, and Finish fails afterwards: begin a new one (F-58).
	io.Writer

	// Finish makes the object visible and durable under its key. If the key has been taken by then it fails with
	// [ErrExists] and changes nothing, as [Store.PutIfAbsent] does; the object that has the key may be this caller's
	// own, from an earlier upload whose reply was lost. With a store that has no such condition, which package
	// objstore/cloud reports, the key is checked immediately before: an object created in between is replaced. After an
	// error the upload is over: the object is absent, or the outcome is unknown as described in the package
	// documentation.
	Finish() error

	// Abort cancels the upload and removes what was sent. After Finish, and when called again, it does nothing, so
	// that callers can defer it. An error says that parts may be left behind, which are invisible and only take up
	// space.
	Abort() error
}

// Info describes an object.
type Info struct {
	// Key is the object's key.
	Key string
	// Size is its length in bytes.
	Size int64
	// Modified is when the object was put, by the store's clock.
	Modified time.Time
}

// ListRequest asks for one page of a listing.
type ListRequest struct {
	// Prefix is what the keys begin with: any bytes of a key, not only whole elements. Empty lists the whole store.
	Prefix string
	// Token is the Next of the previous page, with the same Prefix; empty for the first page. Its content is the
	// store's own.
	Token string
	// Limit is the largest number of objects on the page, from 1 to [MaxPage]. The default value is MaxPage.
	Limit int
}

// MaxPage is the largest number of objects on a page of a listing.
const MaxPage = 1000

// Page is a part of a listing. It may hold fewer objects than requested, even none, and still not be the last one.
type Page struct {
	Objects []Info
	// Next is the token of the page that follows; empty after the last one.
	Next string
}
