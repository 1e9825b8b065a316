package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/ledger"
	"github.com/tidemark-io/tidemark/interop/server"
)

const (
	topic      = "crash"
	partitions = 3
	// roundLimit bounds one round: load, kill, restart, reading everything back.
	roundLimit = 3 * time.Minute
)

// fromEnv returns the number in the environment variable, or the value for when it is not set.
func fromEnv(t *testing.T, name string, unset int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return unset
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

func TestEveryAcknowledgedRecordSurvivesKill9UnderLoad(t *testing.T) {
	rounds := fromEnv(t, "INTEROP_CRASH_ROUNDS", 50)
	seed := fromEnv(t, "INTEROP_CRASH_SEED", time.Now().UnixNano())
	t.Logf("INTEROP_CRASH_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 0))

	install, err := server.Installed()
	require.NoError(t, err)
	s := start(t)
	client := kgo.SeedBrokers(s.Addr())
	writers := startWriters(t, install, s)
	l := ledger.New(topic)
	load, err := ledger.StartLoad(l, ledger.LoadOptions{
		Client: []kgo.Opt{client}, Readers: 1, Keep: 300, Group: "crash-readers",
	})
	require.NoError(t, err)
	t.Cleanup(load.Close)

	for round := range rounds {
		ctx := limited(t)
		for _, w := range writers {
			w.works(1 + rng.IntN(10))
		}
		require.NoError(t, l.WaitAcks(ctx, l.Acks()+rng.Int64N(300)), "round %d", round)
		require.NoError(t, s.Kill())
		if round%3 == 2 {
			dieInRecovery(t, s, time.Duration(rng.Int64N(int64(200*time.Millisecond))))
		}
		require.NoError(t, s.Start(ctx), "round %d", round)
		load.Pause() // what is in flight still comes in while everything is read back
		verify(t, ctx, l, client, fmt.Sprintf("round %d", round))
		load.Resume()
	}
	ctx := limited(t)
	require.NoError(t, load.Stop(ctx))
	verify(t, ctx, l, client, "after the load")
	for _, w := range writers {
		w.finish(client)
	}
	require.NoError(t, s.Stop(ctx))
	require.NoError(t, s.Start(ctx))
	verify(t, ctx, l, client, "after a clean restart")
}

// start starts the server under test with an empty topic and stops it at the end of the test.
func start(t *testing.T) *server.Server {
	t.Helper()
	install, err := server.Located()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "tidemark-crash-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the data is kept in %s", dir)
			return
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	maker, err := server.UnderTest(install, dir)
	require.NoError(t, err)
	s, err := maker.New(dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server printed:\n%s", s.Dump())
		}
		require.NoError(t, s.Kill())
	})
	ctx := limited(t)
	require.NoError(t, s.Start(ctx))
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()))
	require.NoError(t, err)
	defer c.Close()
	// Small segments, so that rolls and closed segments are part of what is hit.
	configs := map[string]*string{
		"segment.bytes": kadm.StringPtr("1048576"), "tidemark.flush": kadm.StringPtr("group"),
	}
	created, err := kadm.NewClient(c).CreateTopics(ctx, partitions, 1, configs, topic)
	require.NoError(t, err)
	require.NoError(t, created.Error())
	return s
}

// dieInRecovery starts the server and kills it a moment later, in the middle of coming up.
func dieInRecovery(t *testing.T, s *server.Server, after time.Duration) {
	t.Helper()
	require.NoError(t, s.Launch())
	<-time.After(after)
	require.NoError(t, s.Kill())
}

func verify(t *testing.T, ctx context.Context, l *ledger.Ledger, client kgo.Opt, when string) {
	t.Helper()
	report, err := l.Verify(ctx, client)
	require.NoError(t, err, when)
	require.NoError(t, report.Err(), when)
	t.Logf("%s: %d acknowledged, %d of unknown fate, %d in the log", when, report.Acked, report.Unknown, report.Read)
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), roundLimit)
	t.Cleanup(cancel)
	return ctx
}
