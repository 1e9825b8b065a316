package catalog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

func TestAttributesAreBits(t *testing.T) {
	require.EqualValues(t, 0x0D, catalog.NewAttributes(true, 3, false))
	require.EqualValues(t, 0x4000D, catalog.NewAttributes(true, 3, true))
	for _, bucket := range []int16{0, 1, 3, -1, 32767, -32768} {
		for _, composite := range []bool{false, true} {
			for _, deep := range []bool{false, true} {
				a := catalog.NewAttributes(composite, bucket, deep)
				require.Equal(t, []any{composite, bucket, deep}, []any{a.IsComposite(), a.Bucket(), a.IsDeepDelete()})
			}
		}
	}
}

func TestTheStrongerOperationWins(t *testing.T) {
	weakToStrong := []catalog.Operation{catalog.KeepData, catalog.Delete, catalog.DeepDelete}
	for i, weak := range weakToStrong {
		for _, strong := range weakToStrong[i:] {
			require.Equal(t, strong, weak.Stronger(strong))
			require.Equal(t, strong, strong.Stronger(weak))
		}
	}
}

func Example() {
	ctx := context.Background()
	c := catalogtest.NewMemory(time.Now)
	epoch, err := c.RegisterNode(ctx, catalog.Registration{ID: 1, Expected: -1, Incarnation: [16]byte{7}})
	if err != nil {
		fmt.Println(err)
	}
	node := catalog.Node{ID: 1, Epoch: epoch}
	id, err := c.CreateStreams(ctx, node, 1)
	if err != nil {
		fmt.Println(err)
	}
	stream, err := c.OpenStream(ctx, node, id, 1)
	fmt.Println(stream.Opened, stream.Start, stream.End, err)
	// Output: true 0 0 <nil>
}
