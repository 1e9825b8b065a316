package interop

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-io/tidemark/interop/corpus"
)

func TestConfluentKafka(t *testing.T) {
	exchange(t, pythonPeer("confluent_peer.py"), traits{idempotent: true})
}

func TestKafkaPython(t *testing.T) {
	exchange(t, pythonPeer("kafka_python_peer.py"), traits{
		writes:     corpus.Abilities{NoBareNulls: true, NoHeaderNulls: true},
		idempotent: true,
	})
}

func TestAIOKafka(t *testing.T) {
	exchange(t, pythonPeer("aiokafka_peer.py"), traits{
		writes:     corpus.Abilities{NoBareNulls: true, NoHeaderNulls: true},
		idempotent: true,
	})
}

func TestPythonClientsCreateListAndDeleteTopics(t *testing.T) {
	for _, script := range []string{"confluent_peer.py", "kafka_python_peer.py", "aiokafka_peer.py"} {
		t.Run(script, func(t *testing.T) {
			pythonPeer(script).admin(t, "made-by-"+script)
			topics, err := kadm.NewClient(client(t)).ListTopics(limited(t, time.Minute))
			require.NoError(t, err)
			require.False(t, topics.Has("made-by-"+script), "it was not deleted")
		})
	}
}

// pythonPeer is a script in peers/ that carries out jobs.
func pythonPeer(script string) jobPeer {
	return func(args ...string) *exec.Cmd { return shared.install.Python(script, args...) }
}
