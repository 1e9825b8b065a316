package meta_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/meta/metatest"
)

// opener opens the same storage again and again.
type opener func() (meta.Backend, error)

// running is a log that is open, with what is below it.
type running struct {
	open    opener
	options meta.Options
	backend meta.Backend
	*meta.Log
}

func start(t require.TestingT, open opener, o meta.Options) *running {
	r := &running{open: open, options: o}
	r.start(t)
	return r
}

func (r *running) start(t require.TestingT) {
	b, err := r.open()
	require.NoError(t, err)
	l, err := meta.Open(context.Background(), b, r.options)
	require.NoError(t, err)
	r.backend, r.Log = b, l
}

func (r *running) stop() {
	_ = r.Log.Close()
	_ = r.backend.Close()
}

func (r *running) restart(t require.TestingT) {
	r.stop()
	r.start(t)
}

// checkAgainstModel proposes random commands in random groups, closes and opens now and then, and compares every result
// and every state with the model.
func checkAgainstModel(t *rapid.T, open opener) {
	r := start(t, open, meta.Options{SnapshotEvery: 5})
	defer func() { r.stop() }()
	m := newModel()
	for range rapid.IntRange(1, 30).Draw(t, "calls") {
		var commands []meta.Command
		var want []outcome
		for range rapid.IntRange(1, 4).Draw(t, "commands") {
			c := drawCommand(t)
			commands = append(commands, c)
			want = append(want, m.apply(c))
		}
		results, err := r.Propose(context.Background(), commands...)
		require.NoError(t, err)
		var got []outcome
		for _, result := range results {
			got = append(got, outcomeOf(result))
		}
		require.Equal(t, want, got, "%+v", commands)
		require.Equal(t, m.visible(), modelOf(r.View()), "%+v", commands)
		if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
			before := r.View().EncodeSnapshot()
			r.restart(t)
			require.Equal(t, before, r.View().EncodeSnapshot(), "equal histories give equal bytes")
		}
	}
}

func TestTheStateIsWhatTheModelSays(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkAgainstModel(t, metatest.NewMemory("c").Open) })
	})
	t.Run("lossy", func(t *testing.T) { synctest.Test(t, checkLossyAgainstModel) })
	t.Run("embedded", func(t *testing.T) {
		dir, n := t.TempDir(), 0
		rapid.Check(t, func(t *rapid.T) {
			n++
			path := filepath.Join(dir, fmt.Sprint(n))
			checkAgainstModel(t, func() (meta.Backend, error) { return embedded.Open(path, embedded.Options{ClusterID: "c"}) })
		})
	})
}

// checkLossyAgainstModel runs in a bubble, so that waiting for a bad network takes no time.
func checkLossyAgainstModel(t *testing.T) {
	bubble := struct{ testing.TB }{t} // rapid asks a *testing.T for its deadline, which a bubble has not
	rapid.Check(bubble, func(t *rapid.T) {
		m, seed := metatest.NewMemory("c"), rapid.Uint64().Draw(t, "seed")
		checkAgainstModel(t, func() (meta.Backend, error) {
			b, err := m.Open()
			if err != nil {
				return nil, err
			}
			seed++
			return metatest.Lossy(b, seed), nil
		})
	})
}

func TestAfterACrashTheStateIsWhatTheModelSaysWithOrWithoutTheCommandInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		storage := metatest.NewMemory("c")
		r := start(t, storage.Open, meta.Options{SnapshotEvery: 3})
		defer func() { r.stop() }()
		m := newModel()
		for range rapid.IntRange(1, 6).Draw(t, "crashes") {
			crashed := storage.CrashAtWrite(rapid.IntRange(1, 6).Draw(t, "write"), rapid.Bool().Draw(t, "kept"))
			for !closed(crashed) {
				c := drawCommand(t)
				after := m.clone()
				want := after.apply(c)
				results, err := r.Propose(context.Background(), c)
				if err == nil {
					require.Equal(t, want, outcomeOf(results[0]))
					m = after
					continue
				}
				before := r.View().Index()
				r.restart(t)
				if r.View().Index() == before+1 { // it got in, and its caller never heard
					m = after
				} else {
					require.Equal(t, before, r.View().Index())
				}
			}
			r.restart(t)
			require.Equal(t, m.visible(), modelOf(r.View()))
		}
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWhatIsDecodedAppliesAsWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		direct, replayed := meta.Empty(), meta.Empty()
		for index := uint64(1); index <= 20; index++ {
			e := meta.Entry{Node: 1, Nonce: index, NowMs: rapid.Int64Range(0, 99).Draw(t, "now")}
			for range rapid.IntRange(1, 5).Draw(t, "commands") {
				e.Commands = append(e.Commands, drawCommand(t))
			}
			b, err := e.Encode()
			require.NoError(t, err)
			decoded, err := meta.DecodeEntry(b)
			require.NoError(t, err)
			require.Equal(t, e, decoded)

			var want, got []meta.Result
			direct, want = direct.Apply(index, e)
			replayed, got = replayed.Apply(index, decoded)
			require.Equal(t, want, got)
			snapshot := direct.EncodeSnapshot()
			require.Equal(t, snapshot, replayed.EncodeSnapshot())
			replayed, err = meta.DecodeSnapshot(snapshot) // the rest is applied to what was restored
			require.NoError(t, err)
			require.Equal(t, snapshot, replayed.EncodeSnapshot())
		}
	})
}
