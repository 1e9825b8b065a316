package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"

	"gocloud.dev/blob"

	"github.com/tidemark-io/tidemark/objstore"
)

// Store is a bucket at a provider: an [objstore.Store].
type Store struct {
	bucket *blob.Bucket
	name   string
	part   int
	// checksums is true if S3's checksum headers are sent, which many stores that are not AWS refuse.
	checksums bool
	// s3 makes requests of S3 that the library does not make as they are needed; nil for other providers.
	s3 *s3Bucket
	// batch deletes many keys at once; nil where the provider has no request for that.
	batch *batchDeleter
	// replaces is called if multipart uploads may replace objects; it may be nil.
	replaces func()

	mu struct {
		sync.RWMutex
		closed bool
	}
}

var _ objstore.Store = (*Store)(nil)

// New returns a store for a gocloud.dev bucket that the caller has opened, with a name for messages. The store owns the
// bucket from then on, unless New fails.
func New(bucket *blob.Bucket, name string, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{bucket: bucket, name: name, part: o.PartBytes, replaces: o.Replaces}, nil
}

func checkPath(path string) error { return objstore.CheckKey(path) }

// String returns the URL without its query.
func (s *Store) String() string { return s.name }

func (s *Store) begin(ctx context.Context, op objstore.Op, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return &objstore.Error{Op: op, Store: s.name, Key: key, Class: objstore.ErrInvalid, Err: err}
	}
	return s.usable(ctx, op, key)
}

func (s *Store) usable(ctx context.Context, op objstore.Op, key string) error {
	if err := ctx.Err(); err != nil {
		return &objstore.Error{Op: op, Store: s.name, Key: key, Err: err}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed {
		return &objstore.Error{Op: op, Store: s.name, Key: key, Err: objstore.ErrClosed}
	}
	return nil
}

// fail wraps an error of the provider with the call and finds its class.
func (s *Store) fail(ctx context.Context, op objstore.Op, key string, err error) *objstore.Error {
	e := &objstore.Error{Op: op, Store: s.name, Key: key, Err: err}
	if ctxErr := ctx.Err(); ctxErr != nil {
		if !errors.Is(err, ctxErr) {
			e.Err = errors.Join(ctxErr, err)
		}
		return e
	}
	e.Class = classOf(err)
	if status, _ := answer(err); s.checksums && (status == http.StatusBadRequest || status == http.StatusNotImplemented) {
		e.Err = fmt.Errorf("%w (if the store does not know S3's checksum headers: request_checksum_calculation=when_required)", err)
	}
	return e
}

// Put implements [objstore.Store].
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	return s.put(ctx, objstore.OpPut, key, data)
}

// PutIfAbsent implements [objstore.Store].
func (s *Store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return s.put(ctx, objstore.OpPutIfAbsent, key, data)
}

// put sends the object in one request: to S3 directly, because the library sends 16 MiB and more in parts, which not
// every store finishes under a condition; elsewhere as far as the provider allows.
func (s *Store) put(ctx context.Context, op objstore.Op, key string, data []byte) error {
	if err := s.begin(ctx, op, key); err != nil {
		return err
	}
	ifAbsent := op == objstore.OpPutIfAbsent
	if s.s3.takes(key) {
		if err := s.s3.put(ctx, key, data, ifAbsent); err != nil {
			return s.fail(ctx, op, key, err)
		}
		return nil
	}
	o := s.writerOptions(max(s.part, len(data)))
	o.IfNotExist = ifAbsent
	if err := s.bucket.Upload(ctx, key, bytes.NewReader(data), o); err != nil {
		return s.fail(ctx, op, key, err)
	}
	return nil
}

// contentType is that of all objects.
const contentType = "application/octet-stream"

func (s *Store) writerOptions(part int) *blob.WriterOptions {
	return &blob.WriterOptions{
		ContentType: contentType, DisableContentTypeDetection: true, BufferSize: part,
	}
}

// Get implements [objstore.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.begin(ctx, objstore.OpGet, key); err != nil {
		return nil, err
	}
	data, err := s.get(ctx, key)
	if err != nil {
		return nil, s.fail(ctx, objstore.OpGet, key, err)
	}
	return data, nil
}

func (s *Store) get(ctx context.Context, key string) ([]byte, error) {
	if s.s3.takes(key) {
		return s.s3.get(ctx, key)
	}
	r, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, r.Size())
	return data, readToEnd(r, data)
}

// readToEnd fills p and then reads to the end, where the checksum is compared.
func readToEnd(r io.Reader, p []byte) error {
	if _, err := io.ReadFull(r, p); err != nil {
		return err
	}
	n, err := r.Read(make([]byte, 1))
	switch {
	case n > 0:
		return errors.New("the store sent more bytes than it announced")
	case err == nil || err == io.EOF:
		return nil
	}
	return err
}

// ReadRange implements [objstore.Store].
func (s *Store) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	invalid := func(err error) error {
		return &objstore.Error{Op: objstore.OpReadRange, Store: s.name, Key: key, Class: objstore.ErrInvalid, Err: err}
	}
	if err := objstore.CheckRange(off, len(p), math.MaxInt64); err != nil {
		return invalid(err)
	}
	if err := s.begin(ctx, objstore.OpReadRange, key); err != nil {
		return err
	}
	err := s.readRange(ctx, key, p, off)
	switch {
	case errors.Is(err, objstore.ErrInvalid):
		return invalid(err)
	case err != nil:
		return s.fail(ctx, objstore.OpReadRange, key, err)
	}
	return nil
}

func (s *Store) readRange(ctx context.Context, key string, p []byte, off int64) error {
	if s.s3.takes(key) {
		return s.s3.readRange(ctx, key, p, off)
	}
	r, err := s.bucket.NewRangeReader(ctx, key, off, int64(len(p)), nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := objstore.CheckRange(off, len(p), r.Size()); err != nil {
		return err
	}
	return readToEnd(r, p)
}

// Head implements [objstore.Store].
func (s *Store) Head(ctx context.Context, key string) (objstore.Info, error) {
	if err := s.begin(ctx, objstore.OpHead, key); err != nil {
		return objstore.Info{}, err
	}
	a, err := s.bucket.Attributes(ctx, key)
	if err != nil {
		return objstore.Info{}, s.fail(ctx, objstore.OpHead, key, err)
	}
	return objstore.Info{Key: key, Size: a.Size, Modified: a.ModTime}, nil
}

// List implements [objstore.Store]. Its tokens are the provider's.
func (s *Store) List(ctx context.Context, request objstore.ListRequest) (objstore.Page, error) {
	limit, err := request.PageSize()
	if err != nil {
		return objstore.Page{}, &objstore.Error{
			Op: objstore.OpList, Store: s.name, Key: request.Prefix, Class: objstore.ErrInvalid, Err: err,
		}
	}
	if err := s.usable(ctx, objstore.OpList, request.Prefix); err != nil {
		return objstore.Page{}, err
	}
	token := blob.FirstPageToken
	if request.Token != "" {
		token = []byte(request.Token)
	}
	objects, next, err := s.bucket.ListPage(ctx, token, limit, &blob.ListOptions{Prefix: request.Prefix})
	if err != nil {
		return objstore.Page{}, s.fail(ctx, objstore.OpList, request.Prefix, err)
	}
	page := objstore.Page{Next: string(next)}
	for _, o := range objects {
		page.Objects = append(page.Objects, objstore.Info{Key: o.Key, Size: o.Size, Modified: o.ModTime})
	}
	return page, nil
}

// Close implements [objstore.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	return s.bucket.Close()
}
