package cloud

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tidemark-io/tidemark/objstore"
)

// s3Bucket sends requests to S3 without gocloud.dev and its transfer manager, which copies what is put and allocates 96
// MiB for each upload in parts. Nil is a bucket of another provider.
type s3Bucket struct {
	client         *s3.Client
	bucket, prefix string
	// encryption is what the URL asks for, or empty to leave it to the bucket; encryptionKey is the key that the URL
	// names, if any.
	encryption    types.ServerSideEncryption
	encryptionKey *string
	checksum      types.ChecksumAlgorithm // of parts; empty for none
	parts         *partPool               // memory of uploads

	// trial holds a value, which who tries out how uploads in parts are finished takes and puts back.
	trial chan struct{}
	// conditional is what was found out: whether they are finished only if the key is free. Nil: nobody knows yet.
	conditional atomic.Pointer[bool]
}

// newS3Bucket returns the bucket of a URL with such a query; every key gets the prefix. Uploads are sent in parts of that
// many bytes, with checksums if the store knows those.
func newS3Bucket(client *s3.Client, bucket, prefix string, query url.Values, part int, checksums bool) *s3Bucket {
	b := &s3Bucket{client: client, bucket: bucket, prefix: prefix, parts: newPartPool(part), trial: make(chan struct{}, 1)}
	b.trial <- struct{}{}
	if checksums {
		b.checksum = types.ChecksumAlgorithmCrc32
	}
	for _, known := range b.encryption.Values() {
		if strings.EqualFold(string(known), query.Get("ssetype")) {
			b.encryption = known
		}
	}
	if key := query.Get("kmskeyid"); key != "" {
		b.encryptionKey = &key
	}
	return b
}

// takes reports whether a key is written here as the library writes it. It writes a few in another way, which are left to it.
func (b *s3Bucket) takes(key string) bool {
	return b != nil && objstore.CheckKey(key) == nil && !strings.Contains(key, "../") && !strings.Contains(key, "__0x")
}

// name is a key's name in the bucket.
func (b *s3Bucket) name(key string) *string {
	name := b.prefix + key
	return &name
}

// ifAbsent is the value of If-None-Match that keeps an existing object.
const ifAbsent = "*"

// put stores an object with one request, however large it is. The error is the provider's.
func (b *s3Bucket) put(ctx context.Context, key string, data []byte, absent bool) error {
	kind, size := contentType, int64(len(data))
	in := &s3.PutObjectInput{
		Bucket: &b.bucket, Key: b.name(key), Body: bytes.NewReader(data), ContentLength: &size, ContentType: &kind,
		ServerSideEncryption: b.encryption, SSEKMSKeyId: b.encryptionKey,
	}
	if absent {
		condition := ifAbsent
		in.IfNoneMatch = &condition
	}
	_, err := b.client.PutObject(ctx, in)
	return err
}

// finishesIfAbsent reports whether the store finishes an upload in parts only if the key is free, when it is asked to. It tries,
// and remembers the answer; first is true for the caller who found it out. Others wait for that one, as long as their contexts
// allow, and try themselves if it failed.
func (b *s3Bucket) finishesIfAbsent(ctx context.Context) (yes, first bool, err error) {
	if known := b.conditional.Load(); known != nil {
		return *known, false, nil
	}
	select {
	case <-b.trial:
	case <-ctx.Done():
		return false, false, context.Cause(ctx)
	}
	defer func() { b.trial <- struct{}{} }()
	if known := b.conditional.Load(); known != nil {
		return *known, false, nil
	}
	if yes, err = b.tryToReplace(ctx); err != nil {
		return false, false, err
	}
	b.conditional.Store(&yes)
	return yes, true, nil
}

// tryToReplace puts an object, then finishes a multipart upload to its key under the condition that the key is free. A
// store that keeps the object and says so supports the condition; one that replaces it does not, nor does one that
// refuses the request as unsupported.
func (b *s3Bucket) tryToReplace(ctx context.Context) (kept bool, err error) {
	key := objstore.ProbePrefix + rand.Text() + "-parts"
	if err := b.put(ctx, key, []byte("tidemark-first"), false); err != nil {
		return false, err
	}
	name := b.name(key)
	defer func() {
		after, cancel := tidying(ctx)
		defer cancel()
		_, left := b.client.DeleteObject(after, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: name})
		if err == nil && left != nil {
			err = left
		}
	}()
	begun, err := b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &b.bucket, Key: name, ServerSideEncryption: b.encryption, SSEKMSKeyId: b.encryptionKey,
		ChecksumAlgorithm: b.checksum,
	})
	if err != nil {
		return false, err
	}
	err = b.finishIfAbsent(ctx, name, begun.UploadId, []byte("tidemark-second"))
	if err == nil {
		return false, nil
	}
	after, cancel := tidying(ctx)
	defer cancel()
	_, left := b.client.AbortMultipartUpload(after, &s3.AbortMultipartUploadInput{Bucket: &b.bucket, Key: name, UploadId: begun.UploadId})
	if _, code := answer(left); code == "NoSuchUpload" {
		left = nil // some stores forget an upload when they refuse its end
	}
	switch class := classOf(err); {
	case ctx.Err() != nil:
		return false, err
	case class == objstore.ErrExists:
		return true, left
	case class == nil:
		return false, left
	}
	return false, errors.Join(err, left)
}

// tidying returns a context for removing what is no longer needed, even if the caller's context has ended. It has a
// deadline: a store that does not respond is not waited for.
func tidying(ctx context.Context) (context.Context, context.CancelFunc) {
	bound := abortTime
	if ctx.Err() != nil {
		bound = lateTime
	}
	return context.WithTimeout(context.WithoutCancel(ctx), bound)
}

// finishIfAbsent sends the one part of an upload, and finishes it under the condition that the key is free.
func (b *s3Bucket) finishIfAbsent(ctx context.Context, name, id *string, data []byte) error {
	number, condition := int32(1), ifAbsent
	part, err := b.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &b.bucket, Key: name, UploadId: id, PartNumber: &number, Body: bytes.NewReader(data),
		ChecksumAlgorithm: b.checksum,
	})
	if err != nil {
		return err
	}
	_, err = b.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &b.bucket, Key: name, UploadId: id, IfNoneMatch: &condition,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{
			ETag: part.ETag, PartNumber: &number, ChecksumCRC32: part.ChecksumCRC32,
		}}},
	})
	return err
}
