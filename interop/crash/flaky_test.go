package crash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/ledger"
)

func TestEveryAcknowledgedRecordIsThereOnceWhenConnectionsAreCut(t *testing.T) {
	seed := fromEnv(t, "INTEROP_CRASH_SEED", time.Now().UnixNano())
	t.Logf("INTEROP_CRASH_SEED=%d", seed)
	s := start(t)
	client := kgo.SeedBrokers(s.Addr())
	network := newFlaky(uint64(seed), 1_000, 8_000_000)
	l := ledger.New(topic)
	load, err := ledger.StartLoad(l, ledger.LoadOptions{Client: []kgo.Opt{client, kgo.Dialer(network.dial)}, Readers: 1})
	require.NoError(t, err)
	t.Cleanup(load.Close)

	ctx := limited(t)
	for network.count() < 100 {
		require.NoError(t, l.WaitAcks(ctx, l.Acks()+100))
	}
	network.heal()
	require.NoError(t, load.Stop(ctx))
	verify(t, ctx, l, client, "after the cuts")
	t.Logf("%d connections were cut", network.count())
}
