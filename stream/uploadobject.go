package stream

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/tidemark-io/tidemark/objstore"
)

// writeObject stores one object of a block. After a temporary failure it is written again from the beginning, under the
// same key: nobody reads it before the commit.
func (u *uploader) writeObject(ctx context.Context, b *cacheBlock, plan objectPlan) (writtenObject, error) {
	select {
	case u.writes <- struct{}{}:
		defer func() { <-u.writes }()
	case <-ctx.Done():
		return writtenObject{}, ctx.Err()
	}
	key := DataKey(u.namespace, plan.id)
	for try := 0; ; try++ {
		written, err := u.writeOnce(ctx, key, b, plan)
		if err == nil || ctx.Err() != nil {
			return written, err
		}
		if isDefinitive(err) || !objstore.Retriable(err) && try+1 >= uploadTries {
			return written, &UploadError{Key: key, Tries: try + 1, Err: err}
		}
		delay := retryDelay(try)
		u.events.uploadRetried(UploadRetriedEvent{Step: "write", Key: key, Try: try + 1, Delay: delay, Err: err})
		if err := pause(ctx, delay); err != nil {
			return written, err
		}
	}
}

// isDefinitive reports whether a store will never accept what it refused (3.5), or has something else there.
func isDefinitive(err error) bool {
	var taken *ObjectTakenError
	return errors.As(err, &taken) || errors.Is(err, objstore.ErrDenied) || errors.Is(err, objstore.ErrInvalid) || errors.Is(err, ErrOrdering)
}

// writeOnce is one try: one put if the object is smaller than a part, otherwise an upload in parts (OBJ-6). Neither
// replaces an object.
func (u *uploader) writeOnce(ctx context.Context, key string, b *cacheBlock, plan objectPlan) (writtenObject, error) {
	size := 0
	for _, id := range plan.streams {
		size += encodedSize(b.runs[id], u.cfg.ObjectBlockSize)
	}
	if size+FooterSize < u.cfg.ObjectPartSize {
		var buf bytes.Buffer
		buf.Grow(size + FooterSize)
		written, err := writeRecords(&buf, b, plan, u.cfg.ObjectBlockSize)
		if err != nil {
			return written, err
		}
		if err := u.rate.wait(ctx, written.size); err != nil {
			return written, err
		}
		return written, putData(ctx, u.data, key, buf.Bytes())
	}
	upload, err := createData(ctx, u.data, key)
	if err != nil {
		return writtenObject{}, err
	}
	written, err := writeRecords(&pacedWriter{ctx, &u.rate, upload}, b, plan, u.cfg.ObjectBlockSize)
	if err != nil {
		return written, errors.Join(err, upload.Abort())
	}
	return written, upload.Finish()
}

// encodedSize estimates, rather high than low, how many bytes a run becomes.
func encodedSize(run *logRun, blockSize int) int {
	blocks := int(run.size)/max(blockSize, 1) + 2
	return int(run.size) + len(run.records)*RecordHeaderSize + blocks*(blockHeaderSize+indexEntrySize)
}

// pacedWriter is a writer that keeps to a rate.
type pacedWriter struct {
	ctx  context.Context
	rate *uploadRate
	w    io.Writer
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if err := p.rate.wait(p.ctx, int64(len(b))); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// writeRecords writes the object of some of a block's streams, in the order of their ids.
func writeRecords(w io.Writer, b *cacheBlock, plan objectPlan, blockSize int) (writtenObject, error) {
	o := NewObjectWriter(w, blockSize)
	written := writtenObject{objectPlan: plan}
	for _, id := range plan.streams {
		for _, r := range b.runs[id].records {
			if err := o.Add(r); err != nil {
				return written, err
			}
		}
	}
	if err := o.Close(); err != nil {
		return written, err
	}
	written.size = o.Size()
	written.ranges = o.Index().runs()
	for i := range written.ranges {
		written.ranges[i].Epoch = b.runs[plan.streams[i]].records[0].Epoch
	}
	return written, nil
}
