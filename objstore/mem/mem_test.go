package mem_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStoreInMemoryPassesTheSuite(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstoretest.Opener {
		bucket := mem.NewBucket(time.Now)
		return func(t *testing.T) objstore.Store { return bucket.Open() }
	})
}

func TestModificationTimesComeFromTheClock(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	s := mem.NewBucket(func() time.Time { return at }).Open()
	require.NoError(t, s.Put(t.Context(), "k", []byte("x")))
	info, err := s.Head(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, objstore.Info{Key: "k", Size: 1, Modified: at}, info)
}

func Example() {
	s := mem.New()
	defer s.Close()
	ctx := context.Background()
	if err := s.PutIfAbsent(ctx, "wal/0", []byte("tide")); err != nil {
		fmt.Println(err)
	}
	fmt.Println(s.PutIfAbsent(ctx, "wal/0", []byte("mark")))
	// Output: object store mem://: put-if-absent "wal/0": object exists
}
