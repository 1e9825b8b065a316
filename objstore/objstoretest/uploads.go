package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
)

func (s *suite) create(key string) objstore.Upload {
	s.Helper()
	up, err := s.Create(s.ctx(), key)
	require.NoError(s, err)
	return up
}

func (s *suite) write(up objstore.Upload, content string) {
	s.Helper()
	n, err := up.Write([]byte(content))
	require.NoError(s, err)
	require.Equal(s, len(content), n)
}

func testUpload(s *suite) {
	up := s.create("small/object")
	s.write(up, "ti")
	s.write(up, "")
	s.write(up, "de")
	require.NoError(s, up.Finish())
	require.Equal(s, "tide", s.content("small/object"))

	require.NoError(s, s.create("empty").Finish())
	require.Equal(s, "", s.content("empty"))

	part := strings.Repeat("0123456789abcdef", 1<<16)
	up = s.create("large/object") // in several parts
	for range 12 {
		s.write(up, part)
	}
	require.NoError(s, up.Finish())
	require.True(s, s.content("large/object") == strings.Repeat(part, 12))
}

// testUploadIfAbsent has an object that was there before the upload began, or that is created while it is sent, in one
// part or several.
func testUploadIfAbsent(s *suite) {
	for _, size := range []int{3, 12 << 20} {
		s.put("before", "old")
		before, meanwhile := s.create("before"), s.create("meanwhile")
		for _, up := range []objstore.Upload{before, meanwhile} {
			s.write(up, strings.Repeat("n", size))
		}
		require.NoError(s, s.PutIfAbsent(s.ctx(), "meanwhile", []byte("old")))
		s.requireError(before.Finish(), objstore.ErrExists, objstore.OpFinish, "before")
		s.requireError(meanwhile.Finish(), objstore.ErrExists, objstore.OpFinish, "meanwhile")
		require.NoError(s, before.Abort())
		require.Equal(s, []string{"before", "meanwhile"}, s.keys("", 0))
		for _, key := range s.keys("", 0) {
			require.Equal(s, "old", s.content(key))
			require.NoError(s, s.Delete(s.ctx(), key))
		}
	}
}

// race tries to make an object, by an upload or by a put.
func (s *suite) race(key, content string, upload bool) error {
	if !upload {
		return s.PutIfAbsent(s.ctx(), key, []byte(content))
	}
	up, err := s.Create(s.ctx(), key)
	if err != nil {
		return err
	}
	if _, err := up.Write([]byte(content)); err != nil {
		return errors.Join(err, up.Abort())
	}
	return up.Finish()
}

// testUploadRace: of uploads and puts of one key one wins.
func testUploadRace(s *suite) {
	const writers = 8
	won := make(chan string, writers)
	var all sync.WaitGroup
	for i := range writers {
		content := strings.Repeat(string(rune('a'+i)), 6<<20)
		all.Go(func() {
			err := s.race("k", content, i%2 == 0)
			for objstore.Retriable(err) { // some stores let those that come at once try again
				err = s.race("k", content, i%2 == 0)
			}
			if err == nil {
				won <- content
				return
			}
			assert.ErrorIs(s, err, objstore.ErrExists)
		})
	}
	all.Wait()
	require.Len(s, won, 1)
	require.True(s, <-won == s.content("k"))
}

func testUploadInvisible(s *suite) {
	large, fresh := s.create("large"), s.create("fresh")
	s.write(large, strings.Repeat("n", 6<<20))
	s.write(fresh, "new")
	require.Empty(s, s.keys("", 0))
	for _, key := range []string{"large", "fresh"} {
		_, err := s.Head(s.ctx(), key)
		require.ErrorIs(s, err, objstore.ErrNotFound)
	}
	require.NoError(s, large.Finish())
	require.NoError(s, fresh.Finish())
	require.Equal(s, []string{"fresh", "large"}, s.keys("", 0))
}

func testUploadAbort(s *suite) {
	s.put("k", "old")
	for _, key := range []string{"k", "fresh"} {
		up := s.create(key)
		s.write(up, strings.Repeat("n", 6<<20))
		require.NoError(s, up.Abort())
		require.NoError(s, up.Abort())
	}
	require.Equal(s, []string{"k"}, s.keys("", 0))
	require.Equal(s, "old", s.content("k"))
}

func testUploadContext(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx())
	up, err := s.Create(ctx, "k")
	require.NoError(s, err)
	s.write(up, "x")
	cancel()
	require.ErrorIs(s, up.Finish(), context.Canceled)
	require.NoError(s, up.Abort())
	require.Empty(s, s.keys("", 0))
}

func testUploadEnded(s *suite) {
	finished, aborted := s.create("finished"), s.create("aborted")
	s.write(finished, "x")
	require.NoError(s, finished.Finish())
	require.NoError(s, finished.Abort(), "as a deferred call does")
	require.Equal(s, "x", s.content("finished"))
	require.NoError(s, aborted.Abort())
	for key, up := range map[string]objstore.Upload{"finished": finished, "aborted": aborted} {
		_, err := up.Write([]byte("more"))
		s.requireError(err, objstore.ErrEnded, objstore.OpWrite, key)
		s.requireError(up.Finish(), objstore.ErrEnded, objstore.OpFinish, key)
	}
	require.Equal(s, []string{"finished"}, s.keys("", 0))
	require.Equal(s, "x", s.content("finished"))
}

func testContexts(s *suite) {
	s.put("k", "x")
	ended, cancel := context.WithCancel(s.ctx())
	cancel()
	_, get := s.Get(ended, "k")
	_, head := s.Head(ended, "k")
	_, list := s.List(ended, objstore.ListRequest{})
	_, create := s.Create(ended, "u")
	for op, err := range map[objstore.Op]error{
		objstore.OpPut:         s.Put(ended, "k", []byte("y")),
		objstore.OpPutIfAbsent: s.PutIfAbsent(ended, "fresh", nil),
		objstore.OpReadRange:   s.ReadRange(ended, "k", make([]byte, 1), 0),
		objstore.OpDelete:      s.Delete(ended, "k"),
		objstore.OpGet:         get,
		objstore.OpHead:        head,
		objstore.OpList:        list,
		objstore.OpCreate:      create,
	} {
		require.ErrorIs(s, err, context.Canceled, op)
		require.False(s, objstore.Retriable(err), op)
	}
	require.Equal(s, []string{"k"}, s.keys("", 0))
	require.Equal(s, "x", s.content("k"))
}

func testTwoViews(s *suite) {
	other := s.another()
	s.put("k", "one")
	data, err := other.Get(s.ctx(), "k")
	require.NoError(s, err)
	require.Equal(s, "one", string(data))
	require.NoError(s, other.Put(s.ctx(), "k", []byte("two")))
	require.Equal(s, "two", s.content("k"))
	require.ErrorIs(s, other.PutIfAbsent(s.ctx(), "k", nil), objstore.ErrExists)
	require.NoError(s, other.Delete(s.ctx(), "k"))
	require.Empty(s, s.keys("", 0))
}

func testClosed(s *suite) {
	up := s.create("u")
	store := s.open(s.T)
	require.NoError(s, store.Close())
	require.NoError(s, store.Close())
	s.requireError(store.Put(s.ctx(), "k", nil), objstore.ErrClosed, objstore.OpPut, "k")
	_, err := store.Get(s.ctx(), "k")
	s.requireError(err, objstore.ErrClosed, objstore.OpGet, "k")
	_, err = store.List(s.ctx(), objstore.ListRequest{Prefix: "p"})
	s.requireError(err, objstore.ErrClosed, objstore.OpList, "p")
	s.requireError(store.Delete(s.ctx(), "k"), objstore.ErrClosed, objstore.OpDelete, "k")
	require.NoError(s, up.Abort())
}

func testProbe(s *suite) {
	s.put("kept", "x")
	require.NoError(s, objstore.Probe(s.ctx(), s.Store))
	require.Equal(s, []string{"kept"}, s.keys("", 0), "the probe leaves nothing")
	require.True(s, bytes.Equal([]byte("x"), []byte(s.content("kept"))))
}
