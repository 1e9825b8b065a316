package importer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// crashPoints is how many moments of an import are tried for each way to take files.
const crashPoints = 25

// A power cut at any moment leaves a target that serves nothing of the import, or all of it, or does not start; and the
// same import, run again, comes to its end.
func TestAPowerCutAtAnyMomentIsFollowedByTheSameImport(t *testing.T) {
	for _, how := range []How{Copy, Link, Move} {
		calls := callsOf(t, how)
		for i := range crashPoints {
			at := (calls*i + calls/2) / crashPoints
			t.Run(fmt.Sprintf("%s, call %d of %d", how, at, calls), func(t *testing.T) {
				m := newMachine(t)
				err := m.runOn(how, func(op faultfs.Op) faultfs.Fault {
					if op.Index == at {
						m.fs.Kill()
					}
					return faultfs.Fault{}
				})
				require.Error(t, err)
				m.crash(memfs.CrashOptions{Seed: uint64(i), KeepUnsynced: float64(i%3) / 2, Torn: true})
				m.requireAllOrNothing()
				require.NoError(t, m.run(func(o *Options) { o.How = how }))
				require.Equal(t, kafkaServed(t), m.served())
			})
		}
	}
}

// The metadata log's writes are those that decide.
func TestAPowerCutAtEachWriteToTheMetadataLog(t *testing.T) {
	for _, how := range []How{Copy, Move} {
		for _, keep := range []bool{false, true} {
			for write := 1; write <= 3; write++ {
				t.Run(fmt.Sprintf("%s, write %d, kept %t", how, write, keep), func(t *testing.T) {
					m := newMachine(t)
					m.meta.CrashAtWrite(write, keep)
					require.Error(t, m.runOn(how, nil))
					m.fs.Kill()
					m.crash(memfs.CrashOptions{Seed: uint64(write), Torn: true})
					m.requireAllOrNothing()
					require.NoError(t, m.run(func(o *Options) { o.How = how }))
					require.Equal(t, kafkaServed(t), m.served())
				})
			}
		}
	}
}

// callsOf is how many calls of the file system an import makes.
func callsOf(t *testing.T, how How) int {
	calls := 0
	m := newMachine(t)
	require.NoError(t, m.runOn(how, func(op faultfs.Op) faultfs.Fault {
		calls = max(calls, op.Index+1)
		return faultfs.Fault{}
	}))
	return calls
}

// runOn runs an import on a disk that something happens to.
func (m *machine) runOn(how How, happens faultfs.Injector) error {
	backend, err := m.meta.Open()
	require.NoError(m.t, err)
	o := m.options(faultfs.New(m.fs, happens), backend)
	o.How, o.Workers = how, 1
	im, err := Open(within(m.t), o)
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	return errors.Join(im.Execute(within(m.t)), im.Close(), backend.Close())
}

// crash switches the machine off and on.
func (m *machine) crash(o memfs.CrashOptions) {
	m.meta.Crash()
	m.fs = m.fs.Crash(o)
}

// requireAllOrNothing starts a server on what is there.
func (m *machine) requireAllOrNothing() {
	m.t.Helper()
	n, stop, err := m.start()
	var unfinished *node.UnfinishedImportError
	if errors.As(err, &unfinished) {
		return
	}
	require.NoError(m.t, err)
	defer stop()
	if served := ask(m.t, n.Addrs().Kafka.String()); len(served.Topics) > 0 {
		require.Equal(m.t, kafkaServed(m.t), served)
	}
}
