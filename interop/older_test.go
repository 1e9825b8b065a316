package interop

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

// olderClient is a client as it was some years ago, and as it is still in use.
type olderClient struct {
	jobs   jobPeer
	group  groupPeer
	traits traits
	codecs []string // none: it has all
}

// olderClients are the clients of TestF63_OlderClients: what they ask for of a server is older than what today's do.
func olderClients(t *testing.T) map[string]olderClient {
	t.Helper()
	all := map[string]olderClient{
		"kafka-python-2.0": {
			jobs: olderPython("kafka_python_peer.py"),
			group: processPeer(func(group, topic string) *exec.Cmd {
				return shared.install.OlderPython("kafka_python_group.py", shared.under.Addr(), group, topic)
			}),
			traits: traits{writes: corpus.Abilities{NoBareNulls: true, NoHeaderNulls: true}},
		},
		"aiokafka-0.8": {
			jobs: olderPython("aiokafka_peer.py"),
			group: processPeer(func(group, topic string) *exec.Cmd {
				return shared.install.OlderPython("aiokafka_group.py", shared.under.Addr(), group, topic)
			}),
			traits: traits{writes: corpus.Abilities{NoBareNulls: true, NoHeaderNulls: true}, idempotent: true},
		},
		"sarama-1.26-as-of-1.0": olderGo("sarama-1.0.0", traits{idempotent: true}, "none", "gzip", "snappy", "lz4"),
		"sarama-1.26-as-of-2.5": olderGo("sarama-2.5.0", traits{idempotent: true}),
		"kafka-go-0.4.8":        olderGo("kafka-go", traits{reads: corpus.Abilities{EmptyIsNull: true}}),
		"librdkafka-1.4":        olderGo("librdkafka", traits{idempotent: true}),
	}
	versions, err := shared.install.JavaClients()
	require.NoError(t, err)
	classes := t.TempDir()
	require.NoError(t, shared.install.CompileJava(versions[0], "Client.java", classes))
	for _, version := range append(versions, "") {
		all["java-"+version] = javaClient(version, classes)
	}
	return all
}

func olderPython(script string) jobPeer {
	return func(args ...string) *exec.Cmd { return shared.install.OlderPython(script, args...) }
}

func olderGo(client string, what traits, codecs ...string) olderClient {
	return olderClient{
		jobs: func(args ...string) *exec.Cmd { return shared.install.OlderGo(client, args...) },
		group: processPeer(func(group, topic string) *exec.Cmd {
			return shared.install.OlderGo(client, "group", shared.under.Addr(), group, topic)
		}),
		traits: what, codecs: codecs,
	}
}

// javaClient is Kafka's Java client of a version, in a program compiled against the oldest of them.
func javaClient(version, classes string) olderClient {
	return olderClient{
		jobs: func(args ...string) *exec.Cmd {
			return shared.install.JavaClient(version, classes, "Client", args...)
		},
		group: processPeer(func(group, topic string) *exec.Cmd {
			return shared.install.JavaClient(version, classes, "Client", "group", shared.under.Addr(), group, topic)
		}),
		traits: traits{idempotent: true},
	}
}

// TestF63_OlderClientsExchangeRecordsShareGroupsAndAdminister runs clients of 2018 to 2024.
func TestF63_OlderClientsExchangeRecordsShareGroupsAndAdminister(t *testing.T) {
	for name, c := range olderClients(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for sessions to end most of the time
			topic := fmt.Sprintf("made-by-%s", name)
			c.jobs.admin(t, topic)
			topics, err := kadm.NewClient(client(t)).ListTopics(limited(t, time.Minute))
			require.NoError(t, err)
			require.False(t, topics.Has(topic), "it was not deleted")
			c.traits.codecs = c.codecs
			exchange(t, c.jobs, c.traits)
			shareAGroup(t, "group-of-"+name, c.group)
		})
	}
}
