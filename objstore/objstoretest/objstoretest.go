// Package objstoretest is the test suite of object stores. Every [objstore.Store] passes it, so that what a room has been
// tested on in memory is what it meets in a bucket.
package objstoretest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
)

// Opener opens a store over one bucket. Each call is another process's view of the same objects.
type Opener func(t *testing.T) objstore.Store

// NewBucket returns the opener of an empty bucket for one test.
type NewBucket func(t *testing.T) Opener

// Run tests a store.
func Run(t *testing.T, newBucket NewBucket) {
	for _, c := range []struct {
		name string
		test func(s *suite)
	}{
		{"what was put is read", testPutGet},
		{"a put replaces the object", testReplace},
		{"put-if-absent leaves what is there", testPutIfAbsent},
		{"one of many put-if-absents wins", testPutIfAbsentRace},
		{"readers see whole objects", testWholeObjects},
		{"missing objects", testMissing},
		{"ranges", testRanges},
		{"head", testHead},
		{"bytes belong to the caller", testOwnership},
		{"keys", testKeys},
		{"list in the order of the keys", testListOrder},
		{"list by prefix", testListPrefix},
		{"list in pages of every size", testListPages},
		{"list while others write and delete", testListConcurrently},
		{"list after each change", testListAfterChange},
		{"list with bad limits", testListLimits},
		{"delete", testDelete},
		{"delete many", testDeleteMany},
		{"F69 a delete tries every key", testDeletePartly},
		{"F69 a delete of many tries every key", testDeletePartlyOfMany},
		{"delete and put the same key at once", testDeleteAndPut},
		{"upload", testUpload},
		{"F45 an upload leaves what is there", testUploadIfAbsent},
		{"F45 one of many uploads and puts wins", testUploadRace},
		{"an unfinished upload is invisible", testUploadInvisible},
		{"an aborted upload leaves nothing", testUploadAbort},
		{"an upload ends with its context", testUploadContext},
		{"an upload that has ended", testUploadEnded},
		{"contexts", testContexts},
		{"two views of one bucket", testTwoViews},
		{"a closed store", testClosed},
		{"the probe accepts the store", testProbe},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := newBucket(t)
			c.test(&suite{T: t, open: open, Store: openStore(t, open)})
		})
	}
}

// openStore opens a store that is closed with the test.
func openStore(t *testing.T, open Opener) objstore.Store {
	t.Helper()
	s := open(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// suite is one test's store with helpers that read as sentences.
type suite struct {
	objstore.Store
	*testing.T
	open Opener
}

func (s *suite) another() objstore.Store {
	s.Helper()
	return openStore(s.T, s.open)
}

func (s *suite) ctx() context.Context { return s.T.Context() }

func (s *suite) put(key, content string) {
	s.Helper()
	require.NoError(s, s.Put(s.ctx(), key, []byte(content)))
}

func (s *suite) content(key string) string {
	s.Helper()
	data, err := s.Get(s.ctx(), key)
	require.NoError(s, err)
	return string(data)
}

// keys lists a prefix in pages of limit objects.
func (s *suite) keys(prefix string, limit int) []string {
	s.Helper()
	keys := []string{}
	for _, o := range s.list(prefix, limit) {
		keys = append(keys, o.Key)
	}
	return keys
}

func (s *suite) list(prefix string, limit int) []objstore.Info {
	s.Helper()
	var all []objstore.Info
	request := objstore.ListRequest{Prefix: prefix, Limit: limit}
	for {
		page, err := s.List(s.ctx(), request)
		require.NoError(s, err)
		if limit > 0 {
			require.LessOrEqual(s, len(page.Objects), limit)
		}
		all = append(all, page.Objects...)
		if page.Next == "" {
			return all
		}
		require.NotEqual(s, request.Token, page.Next, "the listing does not advance")
		request.Token = page.Next
	}
}

// requireError checks an error's class, call and key.
func (s *suite) requireError(err error, class error, op objstore.Op, key string) {
	s.Helper()
	require.ErrorIs(s, err, class)
	var e *objstore.Error
	require.ErrorAs(s, err, &e)
	require.Equal(s, op, e.Op)
	require.Equal(s, key, e.Key)
	require.Equal(s, s.String(), e.Store)
	for _, other := range []error{
		objstore.ErrExists, objstore.ErrNotFound, objstore.ErrThrottled, objstore.ErrTransient, objstore.ErrDenied,
		objstore.ErrInvalid,
	} {
		if other != class {
			require.NotErrorIs(s, err, other)
		}
	}
}
