package stream

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

func TestBlocksThatAreCopiedHaveTheShapeThatTheIndexSays(t *testing.T) {
	one := AppendBlock(nil, []Record{{Stream: 1, Count: 1, Payload: []byte("abc")}})
	two := AppendBlock(one, []Record{{Stream: 1, Base: 1, Count: 1}, {Stream: 1, Base: 2, Count: 1}})
	entry := IndexEntry{Stream: 1, Delta: 3, Records: 3, Size: int32(len(two))}
	require.NoError(t, checkBlocks("key", entry, two))
	for name, spoil := range map[string]func(b []byte) []byte{
		"cut off in a header":         func(b []byte) []byte { return b[:len(one)+5] },
		"cut off in records":          func(b []byte) []byte { return b[:len(b)-1] },
		"another magic":               func(b []byte) []byte { b[len(one)]++; return b },
		"another flag":                func(b []byte) []byte { b[1]++; return b },
		"a record less than is said":  func(b []byte) []byte { b[5] = 0; return b },
		"a length of its own":         func(b []byte) []byte { b[9]++; return b },
		"a length that is negative":   func(b []byte) []byte { b[6] = 0x80; return b },
		"more records than there are": func(b []byte) []byte { b[2] = 0x7F; return b },
		"nothing":                     func(b []byte) []byte { return nil },
	} {
		err := checkBlocks("key", entry, spoil(append([]byte(nil), two...)))
		require.ErrorIs(t, err, ErrCorrupt, name)
		require.ErrorContains(t, err, `"key"`, name)
	}
}

func TestReadsAreMergedUpToALimit(t *testing.T) {
	block := func(object catalog.ObjectID, position int64, size int32) planBlock {
		return planBlock{object, IndexEntry{Position: position, Size: size}}
	}
	const half = maxRead / 2
	require.Equal(t, []readSpan{
		{object: 1, position: 0, size: maxRead, blocks: []int{2, 0}}, // just the limit
		{object: 1, position: maxRead, size: 10, blocks: []int{4}},
		{object: 1, position: maxRead + 11, size: 10, blocks: []int{5}}, // a gap
		{object: 2, position: maxRead, size: 3 * maxRead, blocks: []int{1}},
		{object: 2, position: 4 * maxRead, size: 10, blocks: []int{3}},
	}, mergeReads([]planBlock{
		block(1, half, half), block(2, maxRead, 3*maxRead), block(1, 0, half), block(2, 4*maxRead, 10),
		block(1, maxRead, 10), block(1, maxRead+11, 10),
	}))
}

func TestALargeBlockIsReadInPieces(t *testing.T) {
	payload := make([]byte, maxRead+100)
	block := AppendBlock(nil, []Record{{Stream: 1, Count: 1, Payload: payload}})
	store := faultstore.New(mem.New(), nil)
	require.NoError(t, store.Put(t.Context(), DataKey("n", 7), block))
	trace := store.Trace(nil)
	source := blockSource{store, "n", newThrottle(0)}
	entry := planBlock{7, IndexEntry{Stream: 1, Delta: 1, Records: 1, Size: int32(len(block))}}
	got, err := source.readBlocks(t.Context(), []planBlock{entry})
	require.NoError(t, err)
	require.Equal(t, block, got[0])
	require.Equal(t, "read 70000000/n/7 0+16777216\nread 70000000/n/7 16777216+143\n", trace.String())

	store.SetInjector(faultstore.FailNth(1, objstore.ErrThrottled))
	_, err = source.readBlocks(t.Context(), []planBlock{entry})
	require.ErrorIs(t, err, objstore.ErrThrottled)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = source.readBlocks(ended, []planBlock{entry})
	require.ErrorIs(t, err, context.Canceled)
}
