package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tidemark-io/tidemark/objstore"
)

const (
	// maxDeletes is how many requests of one call are in flight at the same time.
	maxDeletes = 16
	// deleteBatch is how many keys S3 accepts in one request.
	deleteBatch = 1000
)

// MinDeleteBatch is the number of keys from which on [Store.Delete] sends S3 the request that deletes many, which is a
// POST: fewer DELETE requests, which are free, take no longer.
const MinDeleteBatch = maxDeletes + 1

// Delete implements [objstore.Store]. From [MinDeleteBatch] keys on, S3 gets one request for every 1,000; a provider that
// has no such request, or an S3-compatible store that does not know it, gets one per key.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	d := deletion{store: s, ctx: ctx, slots: make(chan struct{}, maxDeletes), keys: keys, failed: make([]*objstore.Error, len(keys))}
	single, many := d.split()
	for len(many) > 0 {
		n := min(deleteBatch, len(many))
		batch := many[:n]
		d.run(func() { d.deleteBatch(batch) })
		many = many[n:]
	}
	for _, i := range single {
		d.run(func() { d.deleteOne(i) })
	}
	d.all.Wait()
	e := &objstore.DeleteError{}
	for _, f := range d.failed {
		if f != nil {
			e.Failed = append(e.Failed, f)
		}
	}
	if e.Failed != nil {
		return e
	}
	return nil
}

// deletion is one call of Delete.
type deletion struct {
	store  *Store
	ctx    context.Context
	slots  chan struct{} // a token for each request in flight
	all    sync.WaitGroup
	keys   []string
	failed []*objstore.Error // by the number of the key; each is one goroutine's to set
}

// run makes a request when its turn comes.
func (d *deletion) run(request func()) {
	d.slots <- struct{}{}
	d.all.Go(func() {
		defer func() { <-d.slots }()
		request()
	})
}

// split says which keys go alone, by their numbers, and which together.
func (d *deletion) split() (single, many []int) {
	for i, key := range d.keys {
		if d.store.batch.takes(key) {
			many = append(many, i)
		} else {
			single = append(single, i)
		}
	}
	if len(many) < MinDeleteBatch {
		return append(single, many...), nil
	}
	return single, many
}

// deleteOne deletes one key with a request of its own.
func (d *deletion) deleteOne(i int) {
	key := d.keys[i]
	if err := d.store.begin(d.ctx, objstore.OpDelete, key); err != nil {
		d.failed[i] = err.(*objstore.Error)
		return
	}
	err := d.store.sendDelete(d.ctx, key)
	if err == nil || classOf(err) == objstore.ErrNotFound {
		return
	}
	d.failed[i] = d.store.fail(d.ctx, objstore.OpDelete, key, err)
}

// sendDelete deletes a key. The library would first check whether the object exists, which costs a request and is not
// needed here.
func (s *Store) sendDelete(ctx context.Context, key string) error {
	if !s.batch.takes(key) {
		return s.bucket.Delete(ctx, key)
	}
	_, err := s.batch.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.batch.bucket, Key: s.batch.name(key)})
	return err
}

// deleteBatch deletes keys with one request, and one by one if the store does not take that request.
func (d *deletion) deleteBatch(batch []int) {
	byKey := map[string][]int{}
	var keys []string
	for _, i := range batch {
		if byKey[d.keys[i]] == nil {
			keys = append(keys, d.keys[i])
		}
		byKey[d.keys[i]] = append(byKey[d.keys[i]], i)
	}
	fail := func(key string, e *objstore.Error) {
		for _, i := range byKey[key] {
			d.failed[i] = e
		}
	}
	refused, err := d.sendBatch(keys)
	var unsent *objstore.Error
	switch {
	case errors.Is(err, errNoBatch):
		for _, i := range batch {
			d.deleteOne(i)
		}
	case errors.As(err, &unsent):
		for _, key := range keys {
			own := *unsent
			own.Key = key
			fail(key, &own)
		}
	case err != nil:
		for _, key := range keys {
			fail(key, d.store.fail(d.ctx, objstore.OpDelete, key, err))
		}
	}
	named := map[string]*objstore.Error{}
	for _, r := range refused {
		key, class, ok := d.store.batch.refusal(r)
		if !ok {
			continue
		}
		cause := fmt.Errorf("%s: %s", value(r.Code), value(r.Message))
		if byKey[key] != nil {
			named[key] = &objstore.Error{Op: objstore.OpDelete, Store: d.store.name, Key: key, Class: class, Err: cause}
			continue
		}
		for _, key := range keys { // it may be any of them
			cause := fmt.Errorf("the store refused the key %q, which was not asked for: %w", value(r.Key), cause)
			fail(key, &objstore.Error{Op: objstore.OpDelete, Store: d.store.name, Key: key, Class: class, Err: cause})
		}
	}
	for key, e := range named {
		fail(key, e)
	}
}

// errNoBatch is a store that does not take many keys in one request, or not from this caller.
var errNoBatch = errors.New("the store deletes one key a request")

// sendBatch sends the request and returns what the store reports as not deleted. The error is the provider's, or a
// [*objstore.Error] about the first key if nothing was sent.
func (d *deletion) sendBatch(keys []string) ([]types.Error, error) {
	if err := d.store.usable(d.ctx, objstore.OpDelete, keys[0]); err != nil {
		return nil, err
	}
	b := d.store.batch
	if b.unknown.Load() {
		return nil, errNoBatch
	}
	objects := make([]types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		objects[i].Key = b.name(key)
	}
	quiet := true
	out, err := b.client.DeleteObjects(d.ctx, &s3.DeleteObjectsInput{
		Bucket: &b.bucket, Delete: &types.Delete{Objects: objects, Quiet: &quiet},
	}, b.options...)
	if err == nil {
		return out.Errors, nil
	}
	status, code := answer(err)
	switch class := classOf(err); {
	case d.ctx.Err() != nil:
	case class == objstore.ErrDenied: // may be about this request only
		return nil, errNoBatch
	case class != nil:
	case isUnknownRequest(status, code):
		b.unknown.Store(true)
		return nil, errNoBatch
	case status == http.StatusBadRequest: // an expired token, a digest that does not fit: the next request may pass
		return nil, errNoBatch
	}
	return nil, err
}

// isUnknownRequest reports whether an answer without a class says that the store does not know the request, and never will.
func isUnknownRequest(status int, code string) bool {
	switch code {
	case "MalformedXML", "InvalidRequest", "NotImplemented", "MethodNotAllowed", "UnsupportedOperation":
		return true
	}
	return status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
}

// batchDeleter deletes at S3; nil for a bucket that is not there.
type batchDeleter struct {
	*s3Bucket
	options []func(*s3.Options)
	unknown atomic.Bool // the store does not know the request
}

func (b *batchDeleter) takes(key string) bool { return b != nil && b.s3Bucket.takes(key) }

// refusal is the store's error for one key; not ok if the object does not exist, which is equivalent to deleted.
func (b *batchDeleter) refusal(r types.Error) (key string, class error, ok bool) {
	key = strings.TrimPrefix(value(r.Key), b.prefix)
	code := value(r.Code)
	class, known := byCode(code)
	switch {
	case code == "NoSuchKey" || code == "NoSuchVersion":
		return key, nil, false
	case known:
		return key, class, true
	case code == "AccessDenied" || code == "MethodNotAllowed" || code == "InvalidAccessKeyId":
		return key, objstore.ErrDenied, true
	case code == "ServiceUnavailable":
		return key, objstore.ErrThrottled, true
	}
	return key, objstore.ErrTransient, true
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// withContentMD5 makes a request carry the header that all stores know, instead of S3's checksum headers, which the
// library sends with this request even when it is told to send them only if required.
func withContentMD5(o *s3.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		// A library that names them in another way has nothing to remove: then a strict store refuses the request, and keys are
		// deleted one by one.
		_, _ = stack.Initialize.Remove("AWSChecksum:SetupInputContext")
		_, _ = stack.Build.Remove("AWSChecksum:RequestMetricsTracking")
		_, _ = stack.Finalize.Remove("AWSChecksum:ComputeInputPayloadChecksum")
		return smithyhttp.AddContentChecksumMiddleware(stack)
	})
}
