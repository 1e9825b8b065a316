package objstoretest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
)

func testPutGet(s *suite) {
	large := strings.Repeat("0123456789abcdef", 7<<20/16)
	for key, content := range map[string]string{
		"tide":                   "mark",
		"a/b/c/d/e/f":            "deep",
		"empty":                  "",
		"binary":                 "\x00\xff\n\r\x80",
		"large/of-several-parts": large,
	} {
		s.put(key, content)
		require.True(s, content == s.content(key), key)
	}
}

func testReplace(s *suite) {
	s.put("k", "a longer first version")
	s.put("k", "second")
	require.Equal(s, "second", s.content("k"))
	s.put("k", "")
	require.Equal(s, "", s.content("k"))
	require.Equal(s, []string{"k"}, s.keys("", 0))
}

func testPutIfAbsent(s *suite) {
	require.NoError(s, s.PutIfAbsent(s.ctx(), "wal/0", []byte("first")))
	err := s.PutIfAbsent(s.ctx(), "wal/0", []byte("second"))
	s.requireError(err, objstore.ErrExists, objstore.OpPutIfAbsent, "wal/0")
	require.Equal(s, "first", s.content("wal/0"))

	s.put("put", "plain")
	s.requireError(s.PutIfAbsent(s.ctx(), "put", nil), objstore.ErrExists, objstore.OpPutIfAbsent, "put")

	require.NoError(s, s.Delete(s.ctx(), "wal/0"))
	require.NoError(s, s.PutIfAbsent(s.ctx(), "wal/0", []byte("third")))
	require.Equal(s, "third", s.content("wal/0"))
}

func testPutIfAbsentRace(s *suite) {
	stores := []objstore.Store{s.Store, s.another()}
	for round := range 8 {
		key := fmt.Sprintf("race/%d/key", round)
		won := make([]bool, 8)
		errs := make([]error, len(won))
		var all sync.WaitGroup
		for i := range won {
			all.Go(func() {
				err := stores[i%len(stores)].PutIfAbsent(s.ctx(), key, bytes.Repeat([]byte{byte(i)}, 1000))
				won[i], errs[i] = err == nil, err
			})
		}
		all.Wait()
		winner := -1
		for i, err := range errs {
			if won[i] {
				require.Equal(s, -1, winner, "two puts won")
				winner = i
				continue
			}
			require.ErrorIs(s, err, objstore.ErrExists)
		}
		require.NotEqual(s, -1, winner)
		require.Equal(s, string(bytes.Repeat([]byte{byte(winner)}, 1000)), s.content(key))
	}
}

func testWholeObjects(s *suite) {
	versions := []string{strings.Repeat("a", 70000), strings.Repeat("b", 10), strings.Repeat("c", 200000)}
	s.put("k", versions[0])
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 20 {
			if err := s.Put(s.ctx(), "k", []byte(versions[i%3])); err != nil {
				s.Error(err)
			}
		}
	})
	for range 20 {
		require.Contains(s, versions, s.content("k"))
	}
	all.Wait()
}

func testMissing(s *suite) {
	s.put("dir/object", "x")
	for _, key := range []string{"missing", "dir", "dir/missing", "dir/object2"} {
		_, err := s.Get(s.ctx(), key)
		s.requireError(err, objstore.ErrNotFound, objstore.OpGet, key)
		_, err = s.Head(s.ctx(), key)
		s.requireError(err, objstore.ErrNotFound, objstore.OpHead, key)
		err = s.ReadRange(s.ctx(), key, make([]byte, 1), 0)
		s.requireError(err, objstore.ErrNotFound, objstore.OpReadRange, key)
	}
}

func testRanges(s *suite) {
	s.put("k", "0123456789")
	for _, c := range []struct {
		off  int64
		n    int
		want string
	}{{0, 1, "0"}, {0, 10, "0123456789"}, {3, 4, "3456"}, {9, 1, "9"}} {
		p := make([]byte, c.n)
		require.NoError(s, s.ReadRange(s.ctx(), "k", p, c.off))
		require.Equal(s, c.want, string(p))
	}
	for _, c := range []struct {
		off int64
		n   int
	}{{0, 0}, {0, 11}, {5, 6}, {10, 1}, {11, 1}, {-1, 2}, {1 << 62, 1}} {
		err := s.ReadRange(s.ctx(), "k", make([]byte, c.n), c.off)
		s.requireError(err, objstore.ErrInvalid, objstore.OpReadRange, "k")
	}
	s.put("empty", "")
	err := s.ReadRange(s.ctx(), "empty", make([]byte, 1), 0)
	s.requireError(err, objstore.ErrInvalid, objstore.OpReadRange, "empty")
}

func testHead(s *suite) {
	s.put("k", "0123456789")
	info, err := s.Head(s.ctx(), "k")
	require.NoError(s, err)
	require.Equal(s, objstore.Info{Key: "k", Size: 10, Modified: info.Modified}, info)
	require.WithinRange(s, info.Modified, time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour))
	listed := s.list("", 0)
	require.Len(s, listed, 1)
	require.Equal(s, int64(10), listed[0].Size)
	require.WithinDuration(s, info.Modified, listed[0].Modified, 2*time.Second) // some stores list whole seconds
}

func testOwnership(s *suite) {
	data := []byte("first")
	require.NoError(s, s.Put(s.ctx(), "put", data))
	require.NoError(s, s.PutIfAbsent(s.ctx(), "absent", data))
	up, err := s.Create(s.ctx(), "upload")
	require.NoError(s, err)
	_, err = up.Write(data)
	require.NoError(s, err)
	copy(data, "other")
	require.NoError(s, up.Finish())
	for _, key := range []string{"put", "absent", "upload"} {
		got, err := s.Get(s.ctx(), key)
		require.NoError(s, err)
		require.Equal(s, "first", string(got))
		copy(got, "YYYYY")
		require.Equal(s, "first", s.content(key))
	}
}

func testKeys(s *suite) {
	good := []string{
		"a", "A", "0", "a b", "a+b", "a%2Fb", "a&b=c", "x/a.b", "x/~a", "tiefe/träge/潮", "q?", "h#", "x:y", "(1)*", "a'\"<>|",
		strings.Repeat("k", objstore.MaxKeyElement),
		strings.Repeat(strings.Repeat("d", 99)+"/", 10) + "last",
	}
	for _, key := range good {
		s.put(key, "of "+key)
	}
	for _, key := range good {
		require.Equal(s, "of "+key, s.content(key))
	}
	require.ElementsMatch(s, good, s.keys("", 0))

	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", ".hidden", "a/.b", "a\\b", "a\x00b", "a\nb", "\xff",
		strings.Repeat("k", objstore.MaxKeyElement+1), strings.Repeat("k/", objstore.MaxKey/2) + "k",
	} {
		s.requireError(s.Put(s.ctx(), key, nil), objstore.ErrInvalid, objstore.OpPut, key)
		s.requireError(s.PutIfAbsent(s.ctx(), key, nil), objstore.ErrInvalid, objstore.OpPutIfAbsent, key)
		_, err := s.Create(s.ctx(), key)
		s.requireError(err, objstore.ErrInvalid, objstore.OpCreate, key)
		_, err = s.Get(s.ctx(), key)
		s.requireError(err, objstore.ErrInvalid, objstore.OpGet, key)
		_, err = s.Head(s.ctx(), key)
		s.requireError(err, objstore.ErrInvalid, objstore.OpHead, key)
		s.requireError(s.ReadRange(s.ctx(), key, make([]byte, 1), 0), objstore.ErrInvalid, objstore.OpReadRange, key)
		s.requireError(s.Delete(s.ctx(), key), objstore.ErrInvalid, objstore.OpDelete, key)
	}
}

func testDelete(s *suite) {
	s.put("a/b/c", "x")
	s.put("a/b/d", "x")
	require.NoError(s, s.Delete(s.ctx()))
	require.NoError(s, s.Delete(s.ctx(), "a/b/c"))
	require.NoError(s, s.Delete(s.ctx(), "a/b/c"), "a missing object counts as removed")
	require.NoError(s, s.Delete(s.ctx(), "never/was", "a/b", "a"))
	_, err := s.Get(s.ctx(), "a/b/c")
	s.requireError(err, objstore.ErrNotFound, objstore.OpGet, "a/b/c")
	require.Equal(s, []string{"a/b/d"}, s.keys("", 0))
	s.put("a/b/c", "again")
	require.Equal(s, "again", s.content("a/b/c"))
	require.NoError(s, s.Delete(s.ctx(), "a/b/c", "a/b/d", "a/b/d"))
	s.put("a", "where a directory was")
	require.Equal(s, []string{"a"}, s.keys("", 0))
}

func testDeleteMany(s *suite) {
	var keys []string
	for i := range 150 {
		key := fmt.Sprintf("%d/DEFAULT/%d", i%10, i)
		s.put(key, "x")
		keys = append(keys, key)
	}
	for i := range 1000 {
		keys = append(keys, fmt.Sprintf("missing/%d", i))
	}
	s.put("kept", "x")
	require.NoError(s, s.Delete(s.ctx(), keys...))
	require.Equal(s, []string{"kept"}, s.keys("", 0))
}

func testDeletePartly(s *suite) {
	s.put("a", "x")
	s.put("c", "x")
	err := s.Delete(s.ctx(), "a", "/bad", "c", "bad/")
	var failed *objstore.DeleteError
	require.ErrorAs(s, err, &failed)
	require.Len(s, failed.Failed, 2)
	s.requireError(failed.Failed[0], objstore.ErrInvalid, objstore.OpDelete, "/bad")
	s.requireError(failed.Failed[1], objstore.ErrInvalid, objstore.OpDelete, "bad/")
	require.False(s, objstore.Retriable(err))
	require.Empty(s, s.keys("", 0))
}

// testDeletePartlyOfMany deletes more keys than a provider accepts in one request, some of which cannot be deleted.
func testDeletePartlyOfMany(s *suite) {
	var keys, bad []string
	for i := range 2300 {
		key := fmt.Sprintf("d/%d", i)
		switch {
		case i%500 == 3:
			key = fmt.Sprintf("d//%d", i)
			bad = append(bad, key)
		case i%100 == 0:
			s.put(key, "x")
		}
		keys = append(keys, key)
	}
	s.put("kept", "x")
	err := s.Delete(s.ctx(), keys...)
	var failed *objstore.DeleteError
	require.ErrorAs(s, err, &failed)
	var named []string
	for _, e := range failed.Failed {
		s.requireError(e, objstore.ErrInvalid, objstore.OpDelete, e.Key)
		named = append(named, e.Key)
	}
	require.Equal(s, bad, named, "each is named, in the order in which they were asked for")
	require.Equal(s, []string{"kept"}, s.keys("", 0), "and all others are gone")
}

// testDeleteAndPut proves that removing the last object of a prefix does not get in the way of a put below it.
func testDeleteAndPut(s *suite) {
	other := s.another()
	var all sync.WaitGroup
	for _, store := range []objstore.Store{s.Store, other} {
		all.Go(func() {
			for i := range 30 {
				key := fmt.Sprintf("deep/er/%p-%d", store, i)
				err := store.Put(s.ctx(), key, []byte(key))
				if err == nil {
					var data []byte
					data, err = store.Get(s.ctx(), key)
					if err == nil && string(data) != key {
						err = errors.New("other bytes")
					}
				}
				if err == nil {
					err = store.Delete(s.ctx(), key)
				}
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Empty(s, s.keys("", 0))
}
