package cloud

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tidemark-io/tidemark/objstore"
)

// get reads a whole object.
func (b *s3Bucket) get(ctx context.Context, key string) ([]byte, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: b.name(key)})
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	if out.ContentLength == nil {
		return nil, errors.New("the store does not say how long the object is")
	}
	data := make([]byte, *out.ContentLength)
	return data, readToEnd(out.Body, data)
}

// readRange fills p with an object's bytes from off on. A range outside the object is [objstore.ErrInvalid].
func (b *s3Bucket) readRange(ctx context.Context, key string, p []byte, off int64) error {
	asked := fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1)
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: b.name(key), Range: &asked})
	if err != nil {
		return err
	}
	defer out.Body.Close()
	first, size, err := held(out)
	if err != nil || first != off {
		return fmt.Errorf("the store answered with %q to a request for %s", aws.ToString(out.ContentRange), asked)
	}
	if err := objstore.CheckRange(off, len(p), size); err != nil {
		return err
	}
	return readToEnd(out.Body, p)
}

// held returns which part of an object a response has: its first byte, and the size of the whole object. The header
// "bytes 4-7/10" means four bytes of ten; without it the response is the whole object.
func held(out *s3.GetObjectOutput) (first, size int64, err error) {
	if out.ContentRange == nil {
		return 0, aws.ToInt64(out.ContentLength), nil
	}
	var last int64
	_, err = fmt.Sscanf(*out.ContentRange, "bytes %d-%d/%d", &first, &last, &size)
	return first, size, err
}
