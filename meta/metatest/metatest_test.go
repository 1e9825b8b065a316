package metatest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemoryKeepsEveryPromise(t *testing.T) {
	metatest.Run(t, func(*testing.T) metatest.Storage { return metatest.NewMemory("suite-cluster") })
}

// lossyStorage is storage that can only be reached over a bad network.
type lossyStorage struct {
	*metatest.Memory
	seed uint64
}

func (s *lossyStorage) Open() (meta.Backend, error) {
	b, err := s.Memory.Open()
	if err != nil {
		return nil, err
	}
	s.seed++
	return metatest.Lossy(b, s.seed), nil
}

func TestLossyKeepsEveryPromiseToThoseWhoAskAgain(t *testing.T) {
	for seed := range uint64(5) {
		metatest.Run(t, func(*testing.T) metatest.Storage {
			return &lossyStorage{metatest.NewMemory("suite-cluster"), 1000 * seed}
		})
	}
}

func TestMemoryCrashesAtTheWriteThatWasChosen(t *testing.T) {
	for _, keep := range []bool{false, true} {
		m := metatest.NewMemory("c")
		b, err := m.Open()
		require.NoError(t, err)
		require.NoError(t, b.Append(t.Context(), 1, []byte("one")))
		crashed := m.CrashAtWrite(2, keep)
		require.NoError(t, b.Append(t.Context(), 2, []byte("two")))
		require.ErrorIs(t, b.Append(t.Context(), 3, []byte("three")), metatest.ErrCrashed)
		<-crashed
		require.ErrorIs(t, b.Append(t.Context(), 3, []byte("three")), metatest.ErrCrashed)

		b, err = m.Open()
		require.NoError(t, err)
		want := [][]byte{[]byte("one"), []byte("two")}
		if keep {
			want = append(want, []byte("three"))
		}
		got, err := b.Read(t.Context(), 1, 10)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}
