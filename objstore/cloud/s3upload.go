package cloud

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tidemark-io/tidemark/internal/poison"
)

const (
	// partsAtOnce is how many parts of an upload are sent at the same time, while one more is filled.
	partsAtOnce = 5
	// abortTime bounds an abort of an upload; what the store keeps after it, its own rules remove.
	abortTime = 10 * time.Second
	// lateTime is that bound for what is tested after the caller's context has ended.
	lateTime = 2 * time.Second
)

// partWriter writes an object to S3: in one request if it is no longer than a part, otherwise in parts.
//
//	Write --> [ part being filled ] --> [ up to partsAtOnce on their way ] --> Close: one request makes them the object
//
// Its memory is borrowed from the bucket's pool, when the first byte comes. It is for one goroutine.
type partWriter struct {
	ctx    context.Context
	fail   context.CancelCauseFunc // ends ctx, and says why
	bucket *s3Bucket
	key    string
	absent bool                   // an upload in parts is finished only if the key is free; one request always is
	part   []byte                 // what is not yet being sent, up to the size of a part
	upload *string                // id of the upload in parts; nil before the first part is full
	sent   []*types.CompletedPart // in order; what each is is known when it has arrived
	slots  chan struct{}          // a token for each part on its way
	all    sync.WaitGroup
}

func newPartWriter(ctx context.Context, b *s3Bucket, key string, absent bool) *partWriter {
	w := &partWriter{bucket: b, key: key, absent: absent, slots: make(chan struct{}, partsAtOnce)}
	w.ctx, w.fail = context.WithCancelCause(ctx)
	return w
}

// Write implements [io.Writer]. It waits while enough parts are in flight.
func (w *partWriter) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(w.part) == w.bucket.parts.size { // more comes: it is not the last part
			if err := w.send(); err != nil {
				w.fail(err) // the object must not be made without it
				return n, err
			}
		}
		if w.part == nil {
			w.part = w.bucket.parts.get()
		}
		taken := min(w.bucket.parts.size-len(w.part), len(p)-n)
		w.part = append(w.part, p[n:n+taken]...)
		n += taken
	}
	return n, context.Cause(w.ctx)
}

// send puts the part on its way, the first one once the store has begun an upload.
func (w *partWriter) send() error {
	if w.upload == nil {
		out, err := w.bucket.client.CreateMultipartUpload(w.ctx, &s3.CreateMultipartUploadInput{
			Bucket: &w.bucket.bucket, Key: w.bucket.name(w.key), ContentType: aws.String(contentType),
			ServerSideEncryption: w.bucket.encryption, SSEKMSKeyId: w.bucket.encryptionKey, ChecksumAlgorithm: w.bucket.checksum,
		})
		if err != nil {
			return err
		}
		w.upload = out.UploadId
	}
	select {
	case w.slots <- struct{}{}:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	part, done := w.part, &types.CompletedPart{PartNumber: aws.Int32(int32(len(w.sent) + 1))}
	w.part, w.sent = nil, append(w.sent, done)
	w.all.Go(func() {
		defer func() { <-w.slots }()
		defer w.bucket.parts.put(part)
		if err := w.sendPart(part, done); err != nil {
			w.fail(err)
		}
	})
	return nil
}

func (w *partWriter) sendPart(part []byte, done *types.CompletedPart) error {
	out, err := w.bucket.client.UploadPart(w.ctx, &s3.UploadPartInput{
		Bucket: &w.bucket.bucket, Key: w.bucket.name(w.key), UploadId: w.upload, PartNumber: done.PartNumber,
		Body: bytes.NewReader(part), ChecksumAlgorithm: w.bucket.checksum,
	})
	if err != nil {
		return err
	}
	done.ETag, done.ChecksumCRC32 = out.ETag, out.ChecksumCRC32
	return nil
}

// Close turns what was written into the object, unless the context has ended or something has failed: then nothing is
// left.
func (w *partWriter) Close() error {
	err := w.finish()
	w.fail(context.Canceled) // releases the context
	w.all.Wait()
	w.bucket.parts.put(w.part)
	w.part = nil
	return err
}

func (w *partWriter) finish() error {
	if w.upload == nil {
		if err := context.Cause(w.ctx); err != nil {
			return err
		}
		return w.bucket.put(w.ctx, w.key, w.part, true) // every store has this condition
	}
	err := context.Cause(w.ctx)
	if err == nil {
		err = w.send()
	}
	w.all.Wait()
	if err == nil {
		err = context.Cause(w.ctx)
	}
	if err == nil {
		err = w.complete()
	}
	if err != nil {
		w.abort()
	}
	return err
}

func (w *partWriter) complete() error {
	parts := make([]types.CompletedPart, len(w.sent))
	for i, part := range w.sent {
		parts[i] = *part
	}
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &w.bucket.bucket, Key: w.bucket.name(w.key), UploadId: w.upload,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}
	if w.absent {
		in.IfNoneMatch = aws.String(ifAbsent)
	}
	_, err := w.bucket.client.CompleteMultipartUpload(w.ctx, in)
	return err
}

// abort has the store forget the parts. That they have arrived costs nothing but room, so its error does not matter.
func (w *partWriter) abort() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTime)
	defer cancel()
	_, _ = w.bucket.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &w.bucket.bucket, Key: w.bucket.name(w.key), UploadId: w.upload,
	})
}

// partPool lends out the memory of parts, and frees it when it has not been needed for a while. It is safe for concurrent
// use.
type partPool struct {
	size int
	pool sync.Pool // of *[]byte
}

func newPartPool(size int) *partPool { return &partPool{size: size} }

// get returns an empty slice with room for a part.
func (p *partPool) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, p.size)
}

// put returns a part that is no longer used; nil does nothing.
func (p *partPool) put(b []byte) {
	if b == nil {
		return
	}
	b = b[:cap(b)]
	poison.Fill(b)
	p.pool.Put(&b)
}
