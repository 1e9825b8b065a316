package cloud_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
)

func open(t *testing.T, url string) *cloud.Store {
	t.Helper()
	s, err := cloud.Open(t.Context(), url, cloud.Options{})
	require.NoError(t, err)
	return s
}

func TestS3PassesTheSuite(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Opener {
		f := newFakeS3(t)
		return func(t *testing.T) objstore.Store {
			s, err := cloud.Open(t.Context(), f.url(), cloud.Options{PartBytes: cloud.MinPartBytes})
			require.NoError(t, err)
			return s
		}
	})
}

func TestAPrefixOfABucketPassesTheSuite(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Opener {
		f := newFakeS3(t)
		return func(t *testing.T) objstore.Store { return open(t, "s3://b/some/where/?endpoint="+f.URL) }
	})
}

func TestTheMemoryBucketOfTheLibraryPassesTheSuite(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Opener {
		bucket := memblob.OpenBucket(nil)
		t.Cleanup(func() { bucket.Close() })
		return func(t *testing.T) objstore.Store { return newStore(t, blob.PrefixedBucket(bucket, "")) }
	})
}

func newStore(t *testing.T, bucket *blob.Bucket) *cloud.Store {
	t.Helper()
	s, err := cloud.New(bucket, "blob://test", cloud.Options{})
	require.NoError(t, err)
	return s
}

func TestErrorsNameTheCallAndTheirClass(t *testing.T) {
	f := newFakeS3(t)
	s := open(t, f.url())
	defer s.Close()
	for _, c := range []struct {
		status int
		code   string
		class  error // nil for final
	}{
		{403, "AccessDenied", objstore.ErrDenied},
		{404, "NoSuchBucket", objstore.ErrDenied},
		{409, "ConditionalRequestConflict", objstore.ErrTransient},
		{503, "SlowDown", objstore.ErrThrottled},
		{501, "NotImplemented", nil},
	} {
		f.setRefuse(func(*http.Request) (int, string) { return c.status, c.code })
		err := s.PutIfAbsent(t.Context(), "k", []byte("x"))
		var e *objstore.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, objstore.Error{
			Op: objstore.OpPutIfAbsent, Store: "s3://b", Key: "k", Class: c.class, Err: e.Err,
		}, *e, "%d %s: %v", c.status, c.code, err)
	}
	f.Close() // nobody answers
	require.ErrorIs(t, s.Put(t.Context(), "k", nil), objstore.ErrTransient)
}

func TestALonePutIfAbsentIsOneRequest(t *testing.T) {
	f := newFakeS3(t)
	s := open(t, f.url())
	defer s.Close()
	f.takeRequests()
	require.NoError(t, s.PutIfAbsent(t.Context(), "wal/0", make([]byte, 8<<20)))
	require.Equal(t, []string{"PUT wal/0"}, f.takeRequests())
	require.NoError(t, s.ReadRange(t.Context(), "wal/0", make([]byte, 48), 0))
	require.Equal(t, []string{"GET wal/0"}, f.takeRequests())
}

// TestALargePutIfAbsentIsOneRequestToo: not every store has the condition for an upload in parts, and the log of streams, whose
// records may have 64 MiB, rests on it.
func TestALargePutIfAbsentIsOneRequestToo(t *testing.T) {
	f := newFakeS3(t)
	f.mu.unconditional = func() (int, string) { return 0, "" }
	s := open(t, f.url())
	defer s.Close()
	f.takeRequests()
	large := make([]byte, 40<<20)
	require.NoError(t, s.PutIfAbsent(t.Context(), "k", large))
	large[0] = 1
	require.ErrorIs(t, s.PutIfAbsent(t.Context(), "k", large), objstore.ErrExists)
	require.NoError(t, s.Put(t.Context(), "other", large))
	require.Equal(t, []string{"PUT k", "PUT k", "PUT other"}, f.takeRequests())
	first := []byte{9}
	require.NoError(t, s.ReadRange(t.Context(), "k", first, 0))
	require.Equal(t, []byte{0}, first)
}

// sendLarge uploads an object in parts, and calls meanwhile before the end.
func sendLarge(t *testing.T, s *cloud.Store, meanwhile func()) error {
	t.Helper()
	up, err := s.Create(t.Context(), "k")
	require.NoError(t, err)
	_, err = up.Write(make([]byte, 20<<20))
	require.NoError(t, err)
	meanwhile()
	return up.Finish()
}

func TestF45_AnUploadInPartsIsFinishedOnlyIfTheKeyIsFree(t *testing.T) {
	f := newFakeS3(t)
	s, err := cloud.Open(t.Context(), f.url(), cloud.Options{Replaces: func() { t.Error("it does not") }})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, sendLarge(t, s, func() {}))
	tried := strings.Join(f.takeRequests(), "\n")
	require.Contains(t, tried, "PUT tidemark-probe/")
	require.NotContains(t, tried, "HEAD")
	require.NoError(t, s.Delete(t.Context(), "k"))
	err = sendLarge(t, s, func() { require.NoError(t, s.Put(t.Context(), "k", []byte("another's"))) })
	require.ErrorIs(t, err, objstore.ErrExists)
	got, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "another's", string(got))
	require.NotContains(t, strings.Join(f.takeRequests(), "\n"), "tidemark-probe", "what was found out is remembered")
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Equal(t, 0, len(f.mu.uploads), "the parts of the refused upload are removed")
	require.Equal(t, []string{"k"}, slices.Collect(maps.Keys(f.mu.objects)), "and so is what it was tried out with")
}

// TestF25_AnUploadThatIsGivenUpLeavesNoParts: nobody sees them, and whoever owns the bucket pays for them.
func TestF25_AnUploadThatIsGivenUpLeavesNoParts(t *testing.T) {
	f := newFakeS3(t)
	s := open(t, f.url())
	defer s.Close()
	left := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.mu.uploads)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for _, end := range []func(objstore.Upload) error{
		objstore.Upload.Abort,
		func(up objstore.Upload) error { cancel(); return errors.Join(up.Finish(), up.Abort()) },
	} {
		up, err := s.Create(ctx, "k")
		require.NoError(t, err)
		_, err = up.Write(make([]byte, 40<<20))
		require.NoError(t, err)
		require.Equal(t, 1, left())
		if err := end(up); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Equal(t, 0, left())
	}
}

func TestF45_AStoreWithoutTheConditionIsToldOfAndAskedRightBefore(t *testing.T) {
	for name, answer := range map[string]func() (int, string){
		"ignores it":         func() (int, string) { return 0, "" },
		"does not know it":   func() (int, string) { return 501, "NotImplemented" },
		"calls it malformed": func() (int, string) { return 400, "InvalidArgument" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeS3(t)
			f.mu.unconditional = answer
			told := 0
			s, err := cloud.Open(t.Context(), f.url(), cloud.Options{Replaces: func() { told++ }})
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, objstore.Probe(t.Context(), s))
			require.Equal(t, 1, told)
			f.takeRequests()
			require.NoError(t, sendLarge(t, s, func() {}))
			requests := f.takeRequests()
			require.Contains(t, requests, "HEAD k")
			require.ErrorIs(t, sendLarge(t, s, func() {}), objstore.ErrExists)
			require.NoError(t, s.Delete(t.Context(), "k"))
			err = sendLarge(t, s, func() { require.NoError(t, s.Put(t.Context(), "k", []byte("another's"))) })
			require.ErrorIs(t, err, objstore.ErrExists)
			var e *objstore.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, []any{objstore.OpFinish, "k"}, []any{e.Op, e.Key})
			got, err := s.Get(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, "another's", string(got))
			require.Equal(t, 1, told)
			f.mu.Lock()
			defer f.mu.Unlock()
			require.Equal(t, 0, len(f.mu.uploads), "no parts are left")
			require.Equal(t, []string{"k"}, slices.Collect(maps.Keys(f.mu.objects)))
		})
	}
}

// TestF45_AStoreThatForgetsTheUploadThatItRefusedHasTheCondition: nothing is left to be given up then.
func TestF45_AStoreThatForgetsTheUploadThatItRefusedHasTheCondition(t *testing.T) {
	f := newFakeS3(t)
	s, err := cloud.Open(t.Context(), f.url(), cloud.Options{Replaces: func() { t.Error("it does not") }})
	require.NoError(t, err)
	defer s.Close()
	f.setRefuse(func(r *http.Request) (int, string) {
		if r.Method == http.MethodDelete && r.URL.Query().Has("uploadId") {
			delete(f.mu.uploads, r.URL.Query().Get("uploadId"))
			return 404, "NoSuchUpload"
		}
		return 0, ""
	})
	require.NoError(t, sendLarge(t, s, func() {}))
	require.ErrorIs(t, sendLarge(t, s, func() {}), objstore.ErrExists)
}

// TestF60_AnUploadThatWaitsForTheFirstOnesTrialEndsWithItsContext: the store does not answer that one, whose context is longer.
func TestF60_AnUploadThatWaitsForTheFirstOnesTrialEndsWithItsContext(t *testing.T) {
	f := newFakeS3(t)
	asked, silent := make(chan struct{}, 1), make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-silent:
			f.serve(w, r)
		case <-r.Context().Done():
		}
	}))
	defer front.Close()
	s := open(t, "s3://b?endpoint="+front.URL)
	defer s.Close()
	first := make(chan error, 1)
	go func() {
		up, err := s.Create(t.Context(), "first")
		if err == nil {
			err = up.Abort()
		}
		first <- err
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := s.Create(ctx, "second")
		second <- err
	}()
	cancel()
	require.ErrorIs(t, <-second, context.Canceled)
	close(silent)
	require.NoError(t, <-first)
	up, err := s.Create(t.Context(), "third")
	require.NoError(t, err)
	require.NoError(t, up.Abort())
}

// TestF60_ACreateEndsSoonAfterItsContextWhileTheStoreDoesNotAnswer: what was tried out is removed, but not waited for.
func TestF60_ACreateEndsSoonAfterItsContextWhileTheStoreDoesNotAnswer(t *testing.T) {
	f := newFakeS3(t)
	for answered := range 4 { // put, begin, part, finish
		var asked atomic.Int64
		silent := make(chan struct{})
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) > int64(answered) {
				<-silent
				return
			}
			f.serve(w, r)
		}))
		s, err := cloud.Open(t.Context(), "s3://b?endpoint="+front.URL, cloud.Options{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		ended := make(chan error, 1)
		go func() {
			_, err := s.Create(ctx, "k")
			ended <- err
		}()
		select {
		case err := <-ended:
			require.ErrorIs(t, err, context.DeadlineExceeded)
		case <-time.After(20 * time.Second):
			t.Errorf("Create waits after %d requests", answered)
		}
		cancel()
		close(silent)
		require.NoError(t, s.Close())
		front.Close()
	}
}

// TestF45_WhatFitsIntoOneRequestHasTheConditionOfAPut: where that of an upload in parts is not known it is not needed.
func TestF45_WhatFitsIntoOneRequestHasTheConditionOfAPut(t *testing.T) {
	f := newFakeS3(t)
	f.mu.unconditional = func() (int, string) { return 0, "" }
	s := open(t, f.url())
	defer s.Close()
	up, err := s.Create(t.Context(), "k")
	require.NoError(t, err)
	_, err = up.Write([]byte("ours"))
	require.NoError(t, err)
	f.setRefuse(func(r *http.Request) (int, string) {
		if r.Method == http.MethodPut && r.URL.Path == "/b/k" { // another's comes right before it
			f.mu.objects["k"] = []byte("another's")
		}
		return 0, ""
	})
	require.ErrorIs(t, up.Finish(), objstore.ErrExists)
	f.setRefuse(nil)
	got, err := s.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "another's", string(got))
}

// TestF61_EachPartHasTheChecksumThatItsUploadWasBegunWith: AWS refuses others. What is tried out is sent as everything else is.
func TestF61_EachPartHasTheChecksumThatItsUploadWasBegunWith(t *testing.T) {
	f := newFakeS3(t)
	begun, parts := []string{}, []string{}
	var mu sync.Mutex
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		switch query := r.URL.Query(); {
		case query.Has("uploads"):
			begun = append(begun, r.Header.Get("x-amz-checksum-algorithm"))
		case query.Has("partNumber"):
			parts = append(parts, r.Header.Get("x-amz-sdk-checksum-algorithm"))
		}
		mu.Unlock()
		for name := range r.Header {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-checksum-") || lower == "x-amz-sdk-checksum-algorithm" {
				r.Header.Del(name)
			}
		}
		f.serve(w, r)
	}))
	defer front.Close()
	s, err := cloud.Open(t.Context(), "s3://b?endpoint="+front.URL+"&request_checksum_calculation=when_supported", cloud.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, sendLarge(t, s, func() {}))
	require.Equal(t, []string{"CRC32", "CRC32"}, begun, "of the upload that is tried out, and of this one")
	require.Equal(t, []string{"CRC32", "CRC32", "CRC32"}, parts)
}

// TestF45_WhatCouldNotBeTriedOutIsTriedAgain: a store that fails for now has said nothing.
func TestF45_WhatCouldNotBeTriedOutIsTriedAgain(t *testing.T) {
	f := newFakeS3(t)
	s, err := cloud.Open(t.Context(), f.url(), cloud.Options{Replaces: func() { t.Error("it does not") }})
	require.NoError(t, err)
	defer s.Close()
	for n := range 6 { // put, begin, part, finish, abort, delete
		left := n
		f.setRefuse(func(*http.Request) (int, string) {
			if left--; left < 0 {
				return 500, "InternalError"
			}
			return 0, ""
		})
		_, err = s.Create(t.Context(), "k")
		require.ErrorIs(t, err, objstore.ErrTransient, n)
	}
	f.setRefuse(nil)
	require.NoError(t, sendLarge(t, s, func() {}))
}

// TestAnUploadIsOneRequestUpToAPartAndThenOneForEach, whatever the sizes of the writes; its bytes come in their order.
func TestAnUploadIsOneRequestUpToAPartAndThenOneForEach(t *testing.T) {
	f := newFakeS3(t)
	s, err := cloud.Open(t.Context(), f.url(), cloud.Options{PartBytes: cloud.MinPartBytes})
	require.NoError(t, err)
	defer s.Close()
	giveUp(t, s) // the first upload finds out what the store can do
	const part = cloud.MinPartBytes
	for size, parts := range map[int]int{0: 0, 1: 0, part: 0, part + 1: 2, 2 * part: 2, 7*part - 1: 7} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i / 1000)
		}
		f.takeRequests()
		up, err := s.Create(t.Context(), "k")
		require.NoError(t, err)
		for left := content; len(left) > 0; {
			n := min(len(left), 3<<20)
			_, err := up.Write(left[:n])
			require.NoError(t, err)
			left = left[n:]
		}
		require.NoError(t, up.Finish())
		sent := f.takeRequests()
		want := []string{"PUT k"}
		if parts > 0 {
			want = []string{"POST k uploads"}
			for range parts {
				want = append(want, "PUT k partNumber")
			}
			want = append(want, "POST k")
		}
		require.Equal(t, want, sent, size)
		got, err := s.Get(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got), size)
		require.NoError(t, s.Delete(t.Context(), "k"))
	}
}

// giveUp begins an upload, and no more.
func giveUp(t *testing.T, s *cloud.Store) {
	t.Helper()
	up, err := s.Create(t.Context(), "given-up")
	require.NoError(t, err)
	require.NoError(t, up.Abort())
}

// TestAnUploadThatFailsLeavesNoParts: a part that is refused, the last request, or a caller that gives up.
func TestAnUploadThatFailsLeavesNoParts(t *testing.T) {
	f := newFakeS3(t)
	s, err := cloud.Open(t.Context(), f.url(), cloud.Options{PartBytes: cloud.MinPartBytes})
	require.NoError(t, err)
	defer s.Close()
	giveUp(t, s)
	for _, refused := range []string{"a part", "the end", "nothing"} {
		f.setRefuse(func(r *http.Request) (int, string) {
			part, end := r.URL.Query().Get("partNumber") == "2", r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
			if refused == "a part" && part || refused == "the end" && end {
				return http.StatusForbidden, "AccessDenied"
			}
			return 0, ""
		})
		up, err := s.Create(t.Context(), "k")
		require.NoError(t, err)
		for range 12 {
			if _, err = up.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		if refused == "nothing" {
			require.NoError(t, err)
			require.NoError(t, up.Abort())
		} else {
			require.ErrorIs(t, up.Finish(), objstore.ErrDenied, refused)
		}
		_, err = s.Head(t.Context(), "k")
		require.ErrorIs(t, err, objstore.ErrNotFound)
		f.mu.Lock()
		require.Empty(t, f.mu.uploads, refused)
		f.mu.Unlock()
	}
}

func TestS3IsToldHowToEncrypt(t *testing.T) {
	f := newFakeS3(t)
	s, err := cloud.Open(t.Context(), f.url()+"&ssetype=aws:kms&kmskeyid=key", cloud.Options{PartBytes: cloud.MinPartBytes})
	require.NoError(t, err)
	defer s.Close()
	type request struct{ method, encryption, key string }
	var got []request
	f.setRefuse(func(r *http.Request) (int, string) {
		h := r.Header
		got = append(got, request{
			r.Method, h.Get("X-Amz-Server-Side-Encryption"), h.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"),
		})
		return 0, ""
	})
	require.NoError(t, s.Put(t.Context(), "one", nil))
	up, err := s.Create(t.Context(), "two")
	require.NoError(t, err)
	_, err = up.Write(make([]byte, cloud.MinPartBytes+1))
	require.NoError(t, err)
	require.NoError(t, up.Abort())
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Subset(t, got, []request{{"PUT", "aws:kms", "key"}, {"POST", "aws:kms", "key"}})
}

func TestF61_AStoreThatRefusesChecksumHeaders(t *testing.T) {
	f := newFakeS3(t)
	s := open(t, f.url()) // the suite has shown that everything works with the defaults of an endpoint
	require.NoError(t, objstore.Probe(t.Context(), s))
	require.NoError(t, s.Close())

	s = open(t, f.url()+"&request_checksum_calculation=when_supported")
	defer s.Close()
	var lack *objstore.ProbeError
	require.ErrorAs(t, objstore.Probe(t.Context(), s), &lack)
	require.Equal(t, objstore.FeaturePut, lack.Feature)
	require.ErrorContains(t, lack, "request_checksum_calculation=when_required")
	require.False(t, objstore.Retriable(lack))
}

func TestF58_AnUploadThatTheStoreForgotFailsOnceAndBeginsAgain(t *testing.T) {
	f := newFakeS3(t)
	s, err := cloud.Open(t.Context(), f.url(), cloud.Options{PartBytes: cloud.MinPartBytes})
	require.NoError(t, err)
	defer s.Close()
	f.setRefuse(func(r *http.Request) (int, string) {
		if r.URL.Query().Get("partNumber") == "2" {
			clear(f.mu.uploads)
		}
		return 0, ""
	})
	send := func() error {
		up, err := s.Create(t.Context(), "large")
		require.NoError(t, err)
		defer up.Abort()
		for range 24 {
			if _, err := up.Write([]byte(strings.Repeat("x", 1<<20))); err != nil {
				return err
			}
		}
		return up.Finish()
	}
	err = send()
	require.ErrorIs(t, err, objstore.ErrTransient)
	_, err = s.Head(t.Context(), "large")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	f.setRefuse(nil)
	require.NoError(t, send())
	info, err := s.Head(t.Context(), "large")
	require.NoError(t, err)
	require.Equal(t, int64(24<<20), info.Size)
}

// TestF69_DeletesThatFailForSomeKeys: with many keys in a request, and with one.
func TestF69_DeletesThatFailForSomeKeys(t *testing.T) {
	for _, oneByOne := range []bool{false, true} {
		f := newFakeS3(t)
		f.mu.oneByOne = oneByOne
		s := open(t, f.url())
		defer s.Close()
		var keys []string
		for i := range 40 {
			keys = append(keys, fmt.Sprintf("k%02d", i))
			require.NoError(t, s.Put(t.Context(), keys[i], nil))
		}
		f.setRefuse(func(r *http.Request) (int, string) {
			switch {
			case strings.HasSuffix(r.URL.Path, "7"):
				return 403, "AccessDenied"
			case strings.HasSuffix(r.URL.Path, "05"):
				return 503, "SlowDown"
			case strings.HasSuffix(r.URL.Path, "06"):
				return 404, "NoSuchKey"
			case strings.HasSuffix(r.URL.Path, "08"):
				return 500, "InternalError"
			}
			return 0, ""
		})
		err := s.Delete(t.Context(), append(keys, keys[7])...)
		var failed *objstore.DeleteError
		require.ErrorAs(t, err, &failed)
		type failure struct {
			key   string
			class error
		}
		var failures []failure
		for _, e := range failed.Failed {
			require.Equal(t, objstore.OpDelete, e.Op)
			failures = append(failures, failure{e.Key, e.Class})
		}
		require.Equal(t, []failure{
			{"k05", objstore.ErrThrottled}, {"k07", objstore.ErrDenied}, {"k08", objstore.ErrTransient}, {"k17", objstore.ErrDenied},
			{"k27", objstore.ErrDenied}, {"k37", objstore.ErrDenied}, {"k07", objstore.ErrDenied},
		}, failures, "in the order in which they were asked for")
		require.False(t, objstore.Retriable(err))
		require.Len(t, f.mu.objects, 7, "k06 was refused as one that is not there")
	}
}

func TestManyKeysAreDeletedInOneRequest(t *testing.T) {
	for _, path := range []string{"", "/some/where"} {
		f := newFakeS3(t)
		s := open(t, "s3://b"+path+"?endpoint="+f.URL)
		defer s.Close()
		var keys []string
		for i := range 2500 {
			keys = append(keys, fmt.Sprintf("k/%d", i))
		}
		require.NoError(t, s.Put(t.Context(), keys[0], nil))
		require.NoError(t, s.Put(t.Context(), keys[2499], nil))
		require.NoError(t, s.Put(t.Context(), "kept", nil))
		odd := []string{"a../b", "__0x2f__"} // the library writes them in another way
		for _, key := range odd {
			require.NoError(t, s.Put(t.Context(), key, nil))
		}
		f.takeRequests()
		require.NoError(t, s.Delete(t.Context(), append(keys, odd...)...))
		requests := f.takeRequests()
		require.Len(t, requests, 3+2*2, "and two for each of those")
		require.Equal(t, 3, strings.Count(strings.Join(requests, "\n"), "POST  delete"), "%q", requests)
		require.Len(t, f.mu.objects, 1)
		require.NoError(t, s.Delete(t.Context(), "kept"))
		require.Equal(t, []string{"DELETE " + strings.TrimPrefix(path+"/kept", "/")}, f.takeRequests())
	}
}

// manyKeys are as few as are deleted in one request.
func manyKeys() []string {
	var keys []string
	for i := range cloud.MinDeleteBatch {
		keys = append(keys, fmt.Sprintf("many/%d", i))
	}
	return keys
}

func TestAStoreThatDoesNotKnowTheDeleteOfManyIsAskedOnce(t *testing.T) {
	f := newFakeS3(t)
	f.mu.oneByOne = true
	s := open(t, f.url())
	defer s.Close()
	keys := manyKeys()
	for range 2 {
		for _, key := range keys {
			require.NoError(t, s.Put(t.Context(), key, nil))
		}
		require.NoError(t, s.Delete(t.Context(), keys...))
		require.Empty(t, f.mu.objects)
	}
	require.Equal(t, 1, strings.Count(strings.Join(f.takeRequests(), "\n"), "POST  delete"))
}

// TestADeleteOfManyThatFailsAsAWhole names every key with the class of the failure; one that is denied is tried key by key.
func TestADeleteOfManyThatFailsAsAWhole(t *testing.T) {
	for code, want := range map[string]error{"SlowDown": objstore.ErrThrottled, "InternalError": objstore.ErrTransient, "AccessDenied": nil} {
		f := newFakeS3(t)
		s := open(t, f.url())
		defer s.Close()
		require.NoError(t, s.Put(t.Context(), "a", nil))
		f.setRefuse(func(r *http.Request) (int, string) {
			if r.Method != http.MethodPost {
				return 0, ""
			}
			return map[string]int{"SlowDown": 503, "InternalError": 500, "AccessDenied": 403}[code], code
		})
		err := s.Delete(t.Context(), append(manyKeys(), "a")...)
		if want == nil {
			require.NoError(t, err)
			require.Empty(t, f.mu.objects)
			continue
		}
		require.ErrorIs(t, err, want)
		var failed *objstore.DeleteError
		require.ErrorAs(t, err, &failed)
		require.Len(t, failed.Failed, cloud.MinDeleteBatch+1)
		require.True(t, objstore.Retriable(err))
	}
}

// TestF69_ARefusalThatNamesNoKeyOfTheRequestIsOneOfAllKeys: which of them are still there cannot be told.
func TestF69_ARefusalThatNamesNoKeyOfTheRequestIsOneOfAllKeys(t *testing.T) {
	for _, name := range []string{"", "another"} {
		f := newFakeS3(t)
		s := open(t, f.url())
		defer s.Close()
		keys := manyKeys()
		f.mu.refused = func(key string) string {
			if key == keys[3] {
				return name
			}
			return key
		}
		f.setRefuse(func(r *http.Request) (int, string) {
			switch strings.TrimPrefix(r.URL.Path, "/b/") {
			case keys[3]:
				return 500, "InternalError"
			case keys[2], keys[5]:
				return 403, "AccessDenied"
			}
			return 0, ""
		})
		var failed *objstore.DeleteError
		require.ErrorAs(t, s.Delete(t.Context(), keys...), &failed)
		var got []string
		for i, e := range failed.Failed {
			got = append(got, e.Key)
			want := objstore.ErrTransient
			if i == 2 || i == 5 {
				want = objstore.ErrDenied // it was named
			}
			require.Equal(t, want, e.Class)
		}
		require.Equal(t, keys, got)
	}
}

// TestADeleteOfManyThatIsRefusedForNowIsNotRemembered: such answers have the status 400 as well as those of a store that does
// not know the request.
func TestADeleteOfManyThatIsRefusedForNowIsNotRemembered(t *testing.T) {
	for code, want := range map[string]struct {
		class error // nil: the keys are deleted one by one
		again int   // the requests that delete many, of two calls
	}{
		"OperationAborted": {objstore.ErrTransient, 2}, "ExpiredToken": {nil, 2}, "MalformedXML": {nil, 1}, "InvalidRequest": {nil, 1},
	} {
		f := newFakeS3(t)
		s := open(t, f.url())
		defer s.Close()
		f.setRefuse(func(r *http.Request) (int, string) {
			if r.Method != http.MethodPost {
				return 0, ""
			}
			return 400, code
		})
		for range 2 {
			if err := s.Delete(t.Context(), manyKeys()...); want.class != nil {
				require.ErrorIs(t, err, want.class)
			} else {
				require.NoError(t, err)
			}
		}
		require.Equal(t, want.again, strings.Count(strings.Join(f.takeRequests(), "\n"), "POST  delete"), code)
	}
}

func TestADeleteOfManyFromAStoreThatIsClosedIsFinal(t *testing.T) {
	s := open(t, newFakeS3(t).url())
	require.NoError(t, s.Close())
	err := s.Delete(t.Context(), manyKeys()...)
	require.ErrorIs(t, err, objstore.ErrClosed)
	require.False(t, objstore.Retriable(err))
	var failed *objstore.DeleteError
	require.ErrorAs(t, err, &failed)
	for i, e := range failed.Failed {
		require.Equal(t, []any{manyKeys()[i], nil}, []any{e.Key, e.Class})
	}
}

func TestURLsThatNameNoStore(t *testing.T) {
	for url, want := range map[string]string{
		"http://b":               `scheme "http", want one of s3, gs, azblob`,
		"s3://":                  "names no bucket",
		"s3://key:secret@b":      "credentials do not belong into the URL",
		"s3://b?no_such_option=": "no_such_option",
		"s3://b/../c":            `begins with a dot`,
		"s3://b\x00":             "malformed URL",
	} {
		_, err := cloud.Open(t.Context(), url, cloud.Options{})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := cloud.Open(t.Context(), "s3://b?region=x", cloud.Options{PartBytes: 1})
	require.ErrorContains(t, err, "parts of 1 bytes")
}

func TestAStoreIsNamedWithoutItsOptions(t *testing.T) {
	s := open(t, "s3://bucket/path?region=eu-central-1&profile=")
	defer s.Close()
	require.Equal(t, "s3://bucket/path", s.String())
}

func TestAContextEndsARequestThatHangs(t *testing.T) {
	f := newFakeS3(t)
	s := open(t, f.url())
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	f.setRefuse(func(r *http.Request) (int, string) {
		cancel()
		<-r.Context().Done()
		return 500, "InternalError"
	})
	err := s.Put(ctx, "k", []byte("x"))
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, errors.Is(err, objstore.ErrTransient))
}

func Example() {
	ctx := context.Background()
	s, err := cloud.Open(ctx, "s3://tidemark/production?region=eu-central-1", cloud.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	fmt.Println(s)
	// Output: s3://tidemark/production
}
