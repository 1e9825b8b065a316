package s3

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/server"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
)

// world is what the tests share: one running server.
type world struct {
	addr    string
	buckets atomic.Int64
}

var shared world

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	in, err := server.Installed()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "tidemark-s3-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	s, err := server.NewSeaweed(in, dir)
	if err != nil {
		return 0, err
	}
	if err := s.Start(context.Background()); err != nil {
		return 0, err
	}
	// What a user sets for any S3 tool; SeaweedFS itself must not see it.
	os.Setenv("AWS_ACCESS_KEY_ID", server.SeaweedClient().AccessKey)
	os.Setenv("AWS_SECRET_ACCESS_KEY", server.SeaweedClient().SecretKey)
	shared.addr = s.Addr()
	code = m.Run()
	if err := s.Alive(); err != nil {
		return code, err
	}
	return code, s.Kill() // it takes ten seconds to stop, and has nothing to lose
}

// newBucket makes an empty bucket and returns its URL.
func newBucket(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bucket, err := server.MakeSeaweedBucket(ctx, shared.addr, fmt.Sprintf("bucket-%d", shared.buckets.Add(1)))
	require.NoError(t, err)
	return bucket
}

func open(t *testing.T, bucket string) objstore.Store {
	t.Helper()
	s, err := cloud.Open(t.Context(), bucket, cloud.Options{PartBytes: cloud.MinPartBytes})
	require.NoError(t, err)
	return s
}

func TestARealS3ServerPassesTheSuite(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Opener {
		bucket := newBucket(t)
		return func(t *testing.T) objstore.Store { return open(t, bucket) }
	})
}

// TestF45_ARealS3ServerFinishesAnUploadInPartsOnlyIfTheKeyIsFree: it knows If-None-Match of CompleteMultipartUpload, which the
// driver has found out by then.
func TestF45_ARealS3ServerFinishesAnUploadInPartsOnlyIfTheKeyIsFree(t *testing.T) {
	s, err := cloud.Open(t.Context(), newBucket(t), cloud.Options{
		PartBytes: cloud.MinPartBytes, Replaces: func() { t.Error("it replaces what is there") },
	})
	require.NoError(t, err)
	defer s.Close()
	up, err := s.Create(t.Context(), "k")
	require.NoError(t, err)
	_, err = up.Write(make([]byte, 17<<20)) // the library sends less in one request
	require.NoError(t, err)
	require.NoError(t, s.PutIfAbsent(t.Context(), "k", []byte("another's")))
	require.ErrorIs(t, up.Finish(), objstore.ErrExists)
	got, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "another's", string(got))
}

func TestTheProbeNamesABucketThatIsNotThere(t *testing.T) {
	s := open(t, server.SeaweedBucket(shared.addr, "no-such-bucket"))
	defer s.Close()
	err := objstore.Probe(t.Context(), s)
	var probe *objstore.ProbeError
	require.ErrorAs(t, err, &probe)
	require.Equal(t, "s3://no-such-bucket", probe.Store)
	require.ErrorIs(t, err, objstore.ErrDenied)
}

func TestWrongCredentialsAreDenied(t *testing.T) {
	bucket := newBucket(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another secret")
	s := open(t, bucket)
	defer s.Close()
	_, err := s.Get(t.Context(), "key")
	require.ErrorIs(t, err, objstore.ErrDenied)
}
