package objstoretest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
)

// tree holds keys whose order differs when a directory's name is compared without its slash.
var tree = []string{
	"a!", "a-b", "a.b", "a/b", "a/b.c/d", "a/b0", "a0", "ab", "b/a/a", "b/a/b", "b/a0", "b0/x", "wal/10", "wal/9", "é",
}

func (s *suite) putTree() {
	s.Helper()
	for _, key := range slices.Backward(tree) {
		s.put(key, key)
	}
}

func testListOrder(s *suite) {
	require.Empty(s, s.keys("", 0))
	s.putTree()
	require.Equal(s, tree, s.keys("", 0))
}

func testListPrefix(s *suite) {
	s.putTree()
	for prefix, want := range map[string][]string{
		"a":       {"a!", "a-b", "a.b", "a/b", "a/b.c/d", "a/b0", "a0", "ab"},
		"a/":      {"a/b", "a/b.c/d", "a/b0"},
		"a/b":     {"a/b", "a/b.c/d", "a/b0"},
		"a/b.":    {"a/b.c/d"},
		"a/b/":    {},
		"b/a":     {"b/a/a", "b/a/b", "b/a0"},
		"b/a/":    {"b/a/a", "b/a/b"},
		"b0":      {"b0/x"},
		"wal/9":   {"wal/9"},
		"zz":      {},
		"../":     {},
		"/":       {},
		"a/../":   {},
		".":       {},
		"a/b0/..": {},
	} {
		require.Equal(s, want, s.keys(prefix, 0), "prefix %q", prefix)
	}
}

func testListPages(s *suite) {
	s.putTree()
	for limit := 1; limit <= len(tree)+1; limit++ {
		require.Equal(s, tree, s.keys("", limit), "pages of %d", limit)
	}
	require.Equal(s, []string{"b/a/a", "b/a/b", "b/a0"}, s.keys("b/a", 1))
}

func testListConcurrently(s *suite) {
	var stable []string
	for i := range 20 {
		key := fmt.Sprintf("%d/stable/%02d", i%3, i)
		s.put(key, "x")
		stable = append(stable, key)
	}
	slices.Sort(stable)
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer func() {
		close(stop)
		all.Wait()
	}()
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			key := fmt.Sprintf("%d/moving/%02d", i%3, i%17)
			if err := s.Put(s.ctx(), key, nil); err != nil {
				s.Error(err)
			}
			if err := s.Delete(s.ctx(), key); err != nil {
				s.Error(err)
			}
		}
	})
	for _, limit := range []int{1, 3, 0} {
		seen := slices.DeleteFunc(s.keys("", limit), func(key string) bool { return key[2:8] == "moving" })
		require.Equal(s, stable, seen)
	}
}

func testListAfterChange(s *suite) {
	for i := range 10 {
		key := fmt.Sprintf("k/%d", i)
		s.put(key, "")
		require.Contains(s, s.keys("k/", 0), key)
		if i%2 == 0 {
			require.NoError(s, s.Delete(s.ctx(), key))
			require.NotContains(s, s.keys("k/", 0), key)
		}
	}
}

func testListLimits(s *suite) {
	for _, limit := range []int{-1, objstore.MaxPage + 1} {
		_, err := s.List(s.ctx(), objstore.ListRequest{Prefix: "p", Limit: limit})
		s.requireError(err, objstore.ErrInvalid, objstore.OpList, "p")
	}
}
