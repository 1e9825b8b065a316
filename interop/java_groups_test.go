package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJavaConsumersShareGroupsWithEveryAssignor(t *testing.T) {
	out, errs, err := bounded(t, shared.install.Java(filepath.Join("peers", "Groups.java"), shared.under.Addr()), 3*time.Minute)
	require.NoError(t, err, "%s\n%.6000s", out, errs)
	for _, assignor := range []string{"Range", "RoundRobin", "Sticky", "CooperativeSticky"} {
		for _, members := range []string{"dynamic", "static"} {
			require.Contains(t, string(out), fmt.Sprintf("passed java-%sAssignor-%s\n", assignor, members))
		}
	}
}

const (
	verifiableProducer = "org.apache.kafka.tools.VerifiableProducer"
	verifiableConsumer = "org.apache.kafka.tools.VerifiableConsumer"
)

// TestKafkasVerifiableConsumersTakeOverFromOneThatIsKilled kills a JVM with SIGKILL while it consumes what the verifiable
// producer writes.
func TestKafkasVerifiableConsumersTakeOverFromOneThatIsKilled(t *testing.T) {
	const records = 2000
	g := newGroupTest(t, "verifiable")
	consume := processPeer(func(group, topic string) *exec.Cmd {
		return shared.install.Java(verifiableConsumer, "--bootstrap-server", shared.under.Addr(), "--topic", topic,
			"--group-id", group, "--reset-policy", "earliest", "--session-timeout", "6000")
	})
	told := newHeard() // what the consumers print, a JSON object a line
	first := consume.join(t, g.group, g.topic, told)
	second := consume.join(t, g.group, g.topic, told)
	g.settled(t, 2)

	out := java(t, nil, verifiableProducer, "--bootstrap-server", shared.under.Addr(), "--topic", g.topic,
		"--max-messages", fmt.Sprint(records), "--throughput", "-1")
	acked := bytes.Count(out, []byte(`"name":"producer_send_success"`))
	require.Equal(t, records, acked)
	first.(mortal).kill()
	g.settled(t, 1)
	java(t, nil, verifiableProducer, "--bootstrap-server", shared.under.Addr(), "--topic", g.topic,
		"--max-messages", fmt.Sprint(records), "--throughput", "-1")

	ends, err := g.admin.ListEndOffsets(limited(t, time.Minute), g.topic)
	require.NoError(t, err)
	want := map[int32]int64{}
	for p := range int32(groupPartitions) {
		end, _ := ends.Lookup(g.topic, p)
		want[p] = end.Offset
	}
	ctx := limited(t, time.Minute)
	for {
		committed, err := g.admin.FetchOffsets(ctx, g.group)
		require.NoError(t, err)
		at := map[int32]int64{}
		for p := range int32(groupPartitions) {
			o, _ := committed.Lookup(g.topic, p)
			at[p] = o.At
		}
		if fmt.Sprint(at) == fmt.Sprint(want) {
			break
		}
		select {
		case <-told.news:
		case <-ctx.Done():
			require.Equal(t, want, at, "the second consumer does not come to the end")
		}
	}
	second.leave(t)
	g.settled(t, 0)

	var total int64
	for p, end := range want {
		require.Equal(t, end, consumedTo(t, told, g.topic, p), "partition %d: the consumers skip nothing", p)
		total += end
	}
	require.Equal(t, int64(2*records), total)
}

// consumedTo returns how far from offset 0 the verifiable consumers received a partition without a gap.
func consumedTo(t *testing.T, told *heard, topic string, partition int32) (end int64) {
	t.Helper()
	type span struct{ min, max int64 }
	var spans []span
	for _, line := range told.values() {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var event struct {
			Name       string `json:"name"`
			Partitions []struct {
				Topic     string `json:"topic"`
				Partition int32  `json:"partition"`
				Min       int64  `json:"minOffset"`
				Max       int64  `json:"maxOffset"`
			} `json:"partitions"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &event), line)
		for _, p := range event.Partitions {
			if event.Name == "records_consumed" && p.Topic == topic && p.Partition == partition {
				spans = append(spans, span{p.Min, p.Max})
			}
		}
	}
	for moved := true; moved; {
		moved = false
		for _, s := range spans {
			if s.min <= end && s.max >= end {
				end, moved = s.max+1, true
			}
		}
	}
	return end
}
