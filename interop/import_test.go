package interop

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/interop/kafkadir"
	"github.com/tidemark-io/tidemark/interop/server"
)

// Twenty topics and five groups of a real broker are served by tidemark after an import, with nothing missing and nothing
// changed: ids, settings, bounds, records with their offsets, timestamps, epochs and codecs, and committed offsets.
func TestAnImportedKafkaDirectoryIsServedAsKafkaDid(t *testing.T) {
	if !shared.maker.IsTidemark() {
		t.Log("the server under test is Kafka itself: there is nothing to import into")
		return
	}
	ctx := limited(t, 5*time.Minute)
	dir := t.TempDir()
	kafka, err := server.NewKafka(shared.install, server.KafkaOptions{Dir: dir, Settings: kafkadir.Settings("50")})
	require.NoError(t, err)
	defer kafka.Kill()
	require.NoError(t, kafka.Start(ctx))
	require.NoError(t, kafkadir.Fill(ctx, kafka, kafkadir.Size{Topics: 20, Groups: 5, Records: 10}))
	want, err := kafkadir.Ask(ctx, kafka.Addr())
	require.NoError(t, err)
	require.Len(t, want.Topics, 20)
	require.Len(t, want.Groups, 5)
	requireEveryKind(t, want)

	target := filepath.Join(dir, "tidemark")
	imported := func(args ...string) (string, error) {
		args = append([]string{"import", "kafka-dir", kafka.DataDir(), "--data-dir", target}, args...)
		out, err := exec.CommandContext(ctx, shared.maker.Binary(), args...).CombinedOutput()
		return string(out), err
	}
	out, err := imported()
	require.Error(t, err)
	require.Contains(t, out, "stop it first", "while Kafka runs")
	require.NoError(t, kafka.Stop(ctx))
	out, err = imported()
	require.NoError(t, err, out)
	require.Contains(t, out, "would take 22 topics")
	require.NoDirExists(t, target)
	out, err = imported("--execute")
	require.NoError(t, err, out)
	require.Contains(t, out, "took, verified and synced 22 topics")

	tidemark, err := server.NewTidemark(server.TidemarkOptions{Dir: target, Binary: shared.maker.Binary()})
	require.NoError(t, err)
	defer tidemark.Kill()
	require.NoError(t, tidemark.Start(ctx))
	got, err := kafkadir.Ask(ctx, tidemark.Addr())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, tidemark.Stop(ctx))

	// The source is still Kafka's own, and says the same.
	require.NoError(t, kafka.Start(ctx))
	again, err := kafkadir.Ask(ctx, kafka.Addr())
	require.NoError(t, err)
	require.Equal(t, want, again)
	require.NoError(t, kafka.Kill())

	// After kill -9 Kafka's logs are recovered.
	killed := filepath.Join(dir, "killed")
	target = killed
	out, err = imported("--execute", "--how", "move")
	require.NoError(t, err, out)
	require.Contains(t, out, "was not stopped cleanly")
	tidemark, err = server.NewTidemark(server.TidemarkOptions{Dir: killed, Binary: shared.maker.Binary()})
	require.NoError(t, err)
	defer tidemark.Kill()
	require.NoError(t, tidemark.Start(ctx))
	got, err = kafkadir.Ask(ctx, tidemark.Addr())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, tidemark.Stop(ctx))
}

// requireEveryKind makes sure that what was written is what the test is about.
func requireEveryKind(t *testing.T, s *kafkadir.State) {
	t.Helper()
	codecs, epochs, idempotent, trimmed, control := map[uint8]bool{}, map[int32]bool{}, map[bool]bool{}, false, false
	for _, topic := range s.Topics {
		for _, p := range topic.Partitions {
			trimmed = trimmed || p.Start > 0
			for _, r := range p.Records {
				codecs[r.Codec], epochs[r.LeaderEpoch], idempotent[r.ProducerID >= 0] = true, true, true
				control = control || r.Control
			}
		}
	}
	require.Len(t, codecs, 5)
	require.GreaterOrEqual(t, len(epochs), 2)
	require.Len(t, idempotent, 2)
	require.True(t, trimmed)
	require.True(t, control)
	var sizes []int
	for _, commits := range s.Groups {
		sizes = append(sizes, len(commits))
	}
	require.Positive(t, slices.Min(sizes))
}
