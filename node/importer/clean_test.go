package importer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// isClean reports whether the next start of the target's server reads no record.
func (m *machine) isClean() bool {
	_, err := m.fs.Stat("data/" + cleanMarker)
	return err == nil
}

func TestTheMarkOfACleanStopIsThatOfTheTarget(t *testing.T) {
	m := newMachine(t)
	require.NoError(t, m.run(func(o *Options) { o.Exclude = []string{"topic-00"} }))
	require.True(t, m.isClean(), "everything in a new directory was recovered and synced")

	_, stop, err := m.start()
	require.NoError(t, err)
	stop()
	m.mustPlan(nil)
	require.True(t, m.isClean())
	require.NoError(t, m.run(func(o *Options) { o.Exclude = []string{"topic-00", "topic-01"} }))
	require.True(t, m.isClean())

	require.NoError(t, m.fs.Remove("data/"+cleanMarker))
	require.NoError(t, m.fs.SyncDir("data"))
	require.NoError(t, m.run(nil))
	require.False(t, m.isClean(), "what was there was not looked at")
	require.Equal(t, kafkaServed(t), m.served())
}

// What an import says is durable survives a power cut right after it.
func TestAnImportIsDurableWhenItReturns(t *testing.T) {
	for _, how := range []How{Copy, Link, Move} {
		m := newMachine(t)
		require.NoError(t, m.run(func(o *Options) { o.How = how }))
		m.fs.Kill()
		m.crash(memfs.CrashOptions{Seed: 1})
		require.True(t, m.isClean())
		require.NoError(t, vfs.RemoveAll(m.fs, "kafka"))
		require.Equal(t, kafkaServed(t), m.served())
	}
}
