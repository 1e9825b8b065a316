package importer

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// change overwrites bytes of a file, behind its end if at is -1.
func (m *machine) change(name string, at int64, b []byte) {
	m.t.Helper()
	f, err := m.fs.Open(name, vfs.ReadWrite)
	require.NoError(m.t, err)
	defer f.Close()
	if at < 0 {
		info, err := f.Stat()
		require.NoError(m.t, err)
		at = info.Size()
	}
	_, err = f.WriteAt(b, at)
	require.NoError(m.t, err)
	require.NoError(m.t, f.Sync())
}

func TestWhatAnUncleanStopLeftIsRecovered(t *testing.T) {
	for _, how := range []How{Copy, Link, Move} {
		t.Run(string(how), func(t *testing.T) {
			m := newMachine(t)
			require.NoError(t, m.fs.Remove("kafka/.kafka_cleanshutdown"))
			m.change("kafka/topic-00-0/00000000000000000000.log", -1, []byte("a batch that was being writ"))
			require.NoError(t, vfs.WriteFileAtomic(m.fs, "kafka/recovery-point-offset-checkpoint", nil))
			plan := m.mustPlan(nil)
			require.False(t, plan.Clean)
			repairs := map[string][]string{}
			for _, topic := range plan.Taken() {
				for _, p := range topic.Partitions {
					if len(p.Repairs) > 0 {
						repairs[topic.Name] = p.Repairs
					}
				}
			}
			require.Len(t, repairs, 1)
			require.Len(t, repairs["topic-00"], 1)
			require.Contains(t, repairs["topic-00"][0], "27 bytes are cut off, and the log then ends at offset 40")
			require.NoError(t, m.run(func(o *Options) { o.How = how }))
			require.Equal(t, kafkaServed(t), m.served())
		})
	}
}

func TestDamageInWhatWasFlushedIsToldAndNothingIsTaken(t *testing.T) {
	for _, how := range []How{Copy, Link, Move} {
		t.Run(string(how), func(t *testing.T) {
			m := newMachine(t)
			m.change("kafka/topic-03-0/00000000000000000000.log", 100, []byte{0xff, 0xff, 0xff})
			err := m.run(func(o *Options) { o.How = how })
			var damage *DamageError
			require.ErrorAs(t, err, &damage)
			require.Equal(t, "topic-03", damage.Topic)
			require.Empty(t, m.served().Topics)

			require.NoError(t, m.run(func(o *Options) { o.How, o.Exclude = how, []string{"topic-03"} }))
			want := kafkaServed(t)
			delete(want.Topics, "topic-03")
			got := m.served()
			require.Equal(t, want.Topics, got.Topics)
		})
	}
}

func TestWhatChangedSinceAnInterruptedCopyIsCopiedAnew(t *testing.T) {
	m := newMachine(t)
	m.change("kafka/topic-03-0/00000000000000000000.log", 100, []byte{0xff})
	require.Error(t, m.run(func(o *Options) { o.Workers = 1 }), "with some of it in done/")
	done, err := m.fs.List("data/kafka-import/done")
	require.NoError(t, err)
	require.NotEmpty(t, done)
	fresh := newMachine(t)
	require.NoError(t, vfs.RemoveAll(m.fs, "kafka"))
	require.NoError(t, m.fs.MkdirAll("kafka"))
	for name, data := range tree(t, fresh.fs, "kafka") {
		require.NoError(t, vfs.EnsureDir(m.fs, name[:len(name)-len(base(name))-1]))
		require.NoError(t, vfs.WriteFileAtomic(m.fs, name, []byte(data)))
	}
	require.NoError(t, m.run(nil))
	require.Equal(t, kafkaServed(t), m.served())
}

// base is what follows the last slash.
func base(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}

func TestAnImportByMoveIsFinishedByMove(t *testing.T) {
	m := newMachine(t)
	fails := faultfs.FailMatching(faultfs.OpRename, "kafka/topic-03-0", errors.New("no"))
	require.Error(t, m.runOn(Move, fails))
	err := m.run(nil)
	require.ErrorContains(t, err, "an import of kafka by move is unfinished")
	require.NoError(t, m.run(func(o *Options) { o.How = Move }))
	require.Equal(t, kafkaServed(t), m.served())
}
