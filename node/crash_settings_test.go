package node_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/node/nodetest"
)

// changingSettings are values that a topic may change between without losing anything that was acknowledged.
var changingSettings = map[string][]string{
	"tidemark.flush":       {"group", "every"},
	"segment.bytes":        {"1048576", "1500000", "8388608"},
	"segment.ms":           {"300", "604800000"},
	"segment.index.bytes":  {"240", "10485760"},
	"index.interval.bytes": {"0", "4096"},
	"compression.type":     {"producer", "zstd", "lz4"},
	"file.delete.delay.ms": {"0", "60000"},
}

// changeSettings changes what a topic sets, one setting after the other and over restarts, until the returned func is called.
func changeSettings(t *testing.T, m *nodetest.Machine, topic string, seed uint64) (stop func()) {
	var changed atomic.Int64
	admin := kadm.NewClient(client(t, m))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		random := rand.New(rand.NewPCG(seed, 1))
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for ctx.Err() == nil {
			for name, values := range changingSettings { // in any order
				value := values[random.IntN(len(values))]
				// Nobody answers while the server is away.
				answers, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
				if err == nil && len(answers) == 1 && answers[0].Err == nil {
					changed.Add(1)
				}
				select {
				case <-again.C:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-ended
		require.Positive(t, changed.Load())
	})
}

func TestF01_SettingsThatChangeUnderLoadAndPowerCutsCostNothingAcknowledged(t *testing.T) {
	cuts, seed := fromEnv(t, "NODE_POWER_CUTS", 5), fromEnv(t, "NODE_POWER_CUTS_SEED", 0)
	m := machine(t)
	g := newGuillotine(m)
	l := begin(t, m, uint64(seed), "group")
	stop := changeSettings(t, m, "loaded", uint64(seed))
	for i := range min(cuts, cutsOfALife) {
		l.cutSomewhere(g, uint64(seed+i))
		l.verify("after a cut")
	}
	stop()
	l.end()
}
