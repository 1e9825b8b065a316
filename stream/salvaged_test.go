package stream

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/faultstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

func TestWhatIsKeptOfDamagedLogsIsFoundAndDropped(t *testing.T) {
	w := newWreckage(t)
	w.data(7, row(1, 1, 0))
	w.log(5, 2, 0, row(1, 1, 0))
	w.log(5, 2, Window, row(1, 1, 1))
	w.flip(w5(Window), 60)
	require.NoError(t, w.rebuilt(true).Write(t.Context(), w.options(true)))
	require.NoError(t, w.store.Put(t.Context(), SalvagedPrefix+"by/hand", []byte("123")))
	logs, err := SalvagedLogs(t.Context(), w.store)
	require.NoError(t, err)
	require.Len(t, logs, 2)
	prefix := SalvagedPrefix + WALPrefix{Cluster: "tm-1", Node: 5}.String()
	slices.SortFunc(logs, func(a, b SalvagedLog) int { return int(b.Node - a.Node) })
	require.Equal(t, []any{prefix, "tm-1", catalog.NodeID(5), 2}, []any{logs[0].Prefix, logs[0].Cluster, logs[0].Node, logs[0].Objects})
	require.Equal(t, []any{SalvagedPrefix, "", catalog.NodeID(-1), 1, int64(3)},
		[]any{logs[1].Prefix, logs[1].Cluster, logs[1].Node, logs[1].Objects, logs[1].Bytes})
	require.False(t, logs[0].Since.IsZero())

	var waste []string
	for f, err := range Check(t.Context(), CheckOptions{
		Catalog: catalogtest.NewMemory(time.Now), WAL: w.store, Data: w.store, Cluster: "tm-1",
	}) {
		require.NoError(t, err)
		if f.Kind == FoundSalvaged {
			require.Equal(t, Waste, f.Severity)
			waste = append(waste, f.Key)
		}
	}
	require.ElementsMatch(t, []string{prefix, SalvagedPrefix}, waste)

	failing := faultstore.New(w.store, faultstore.When(func(op faultstore.Op) bool { return op.Kind == objstore.OpDelete }, faultstore.Always(faultstore.Fault{Err: objstore.ErrTransient})))
	require.ErrorIs(t, logs[0].Drop(t.Context(), failing), objstore.ErrTransient)
	log, err := w.store.Get(t.Context(), w5(0))
	require.NoError(t, err)
	require.NoError(t, logs[0].Drop(t.Context(), w.store))
	left, err := SalvagedLogs(t.Context(), w.store)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.EqualValues(t, -1, left[0].Node, "only what was asked for is gone")
	still, err := w.store.Get(t.Context(), w5(0))
	require.NoError(t, err)
	require.Equal(t, log, still)
}
