// Package objstore is what Tidemark asks of an object store, and no more: whole objects that appear at once and are never
// seen in part, a put that fails when the key is taken, range reads, and listings in pages.
//
// Drivers: package mem for tests, package dir for a directory that is as durable as the disk below it, package cloud for
// S3, Google Cloud Storage and Azure. Package faultstore wraps any store to fail, delay, reorder, throttle and record
// its calls; package objstoretest has the suite that every driver passes; [Probe] asks a store at start-up whether it
// keeps what the suite says.
//
// # What every store keeps
//
//   - Atomic. A reader sees an object whole, as one put left it, or not at all. So does a listing.
//   - Durable. When a put, a finished upload or a delete returns nil, what it did survives the end of this process and a
//     power cut of this machine.
//   - Consistent. What one call did is seen by every call that begins after it returned, in any process, listings
//     included.
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

	// Put stores an object, and replaces the one that had the key. data is not kept. It blocks until the object is
	// durable.
	Put(ctx context.Context, key string, data []byte) error

	// PutIfAbsent is Put, but fails with [ErrExists] and changes nothing if the key is taken. The object that took it is
	// durable by then; it may be this caller's own, from an earlier try whose reply was lost.
	PutIfAbsent(ctx context.Context, key string, data []byte) error

	// Create begins an object that is too large to hold in memory, under a key that is free: as PutIfAbsent it replaces
	// nothing, which [Upload.Finish] decides. ctx spans the whole upload: when it ends, the upload can no longer be finished.
	// The caller must end the upload by Finish or Abort.
	Create(ctx context.Context, key string) (Upload, error)

	// Get returns all bytes of an object, which the caller owns. [ErrNotFound] if there is none. Where the store keeps a
	// checksum the bytes have been held against it.
	Get(ctx context.Context, key string) ([]byte, error)

	// ReadRange fills p with the object's bytes from off on. p must not be empty and the range must lie inside the
	// object: otherwise the error is [ErrInvalid] and the content of p is undefined. [ErrNotFound] if there is no object.
	ReadRange(ctx context.Context, key string, p []byte, off int64) error

	// Head describes an object without reading it. [ErrNotFound] if there is none.
	Head(ctx context.Context, key string) (Info, error)

	// List returns a page of the objects whose key begins with Prefix, in the order of the keys' bytes. A key that is
	// there during the whole listing is on exactly one page; one that comes or goes meanwhile may be or not.
	List(ctx context.Context, request ListRequest) (Page, error)

	// Delete removes objects. A key without an object counts as removed; no keys is no error. It tries every key: those
	// that could not be removed are in the [*DeleteError], each with its own error, and all others are gone for good.
	Delete(ctx context.Context, keys ...string) error

	// Close releases the store. Calls that are running may fail; later ones do, with an error of no class. Closing twice
	// is no error.
	Close() error
}

// Upload is an object that is being written in one go, from front to back. It is for one goroutine. Nothing of it is
// visible before Finish returns, whatever happens to the process.
type Upload interface {
	// Write appends p, which is not kept. It may block while earlier parts are sent. An error is final for the upload,
	// and Finish fails after it: begin a new one (F-58).
	io.Writer

	// Finish makes the object visible and durable under its key. If that is taken by then it fails with [ErrExists] and
	// changes nothing, as [Store.PutIfAbsent] does; what took it may be this caller's own, from an earlier upload whose reply
	// was lost. A store without such a condition, which package objstore/cloud tells of, looks at the key right before: there
	// an object that comes in between is replaced. After an error the upload is over: the object is absent, or the outcome is
	// unknown as the package's introduction says.
	Finish() error

	// Abort gives the upload up and removes what was sent. After Finish, and a second time, it does nothing, so that
	// callers can defer it. An error says that remains may be left, which are invisible and cost space only.
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
	// Token is the Next of the page before, with the same Prefix; empty for the first page. It is the store's to read.
	Token string
	// Limit is the largest number of objects on the page, from 1 to [MaxPage]. The default value is MaxPage.
	Limit int
}

// MaxPage is the largest number of objects on a page of a listing.
const MaxPage = 1000

// Page is a part of a listing. It may hold fewer objects than asked for, even none, and not be the last one.
type Page struct {
	Objects []Info
	// Next is the token of the page that follows; empty after the last one.
	Next string
}
