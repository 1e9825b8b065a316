package node_test

import (
	"encoding/binary"
	"hash/crc32"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/internal/ledger"
	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
)

// The tests here are about the crash tests: on a disk that lies, and on one that somebody tampered with, the ledger that
// finds nothing elsewhere must find what is wrong. What it finds is compared as a whole but for the numbers in it.

// unsyncedFiles is a disk that says that it has synced a file of records, and has not.
type unsyncedFiles struct{ vfs.FS }

type unsyncedFile struct{ vfs.File }

func (d unsyncedFiles) Open(name string, mode vfs.Mode) (vfs.File, error) {
	f, err := d.FS.Open(name, mode)
	if err != nil || path.Ext(name) != ".log" {
		return f, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error { return nil }

// unsyncedNames is a disk that says that it has synced a directory, and has not.
type unsyncedNames struct{ vfs.FS }

func (d unsyncedNames) SyncDir(name string) error {
	if strings.Contains(name, "loaded-") {
		return nil
	}
	return d.FS.SyncDir(name)
}

func TestF01_TheLedgerNoticesADiskThatDoesNotSync(t *testing.T) {
	for what, liar := range map[string]func(vfs.FS) vfs.FS{
		"files": func(disk vfs.FS) vfs.FS { return unsyncedFiles{disk} },
		"names": func(disk vfs.FS) vfs.FS { return unsyncedNames{disk} },
	} {
		t.Run(what, func(t *testing.T) {
			m := nodetest.New(t)
			m.Wrap = liar
			l, load := smallLoad(t, m)
			load.Close()
			m.CutPower(nodetest.Cut{})
			m.Start()
			require.Contains(t, broken(t, m, l), "w#-# was acknowledged and is gone; the log is [#, #)")
		})
	}
}

// smallLoad starts the machine with a topic of one partition in which every batch is one record of the only writer, until
// some are acknowledged, shown to a reader, deleted, and committed by a group.
func smallLoad(t *testing.T, m *nodetest.Machine) (*ledger.Ledger, *ledger.Load) {
	t.Helper()
	m.Start()
	createTopic(t, client(t, m), 1, nil, "loaded")
	l := ledger.New("loaded")
	load, err := ledger.StartLoad(l, ledger.LoadOptions{
		Client:  []kgo.Opt{kgo.SeedBrokers(m.Addr())},
		Writers: []ledger.Writer{{Idempotent: true, MinBytes: 50, MaxBytes: 100}}, Buffered: 1, Readers: 1, Group: "billing",
	})
	require.NoError(t, err)
	t.Cleanup(load.Close)
	require.NoError(t, l.WaitAcks(within(t), 100))
	require.NoError(t, l.WaitCommit(within(t), "billing"))
	return l, load
}

// broken reads everything back and returns the kinds of promises that were broken, each once and without numbers.
func broken(t *testing.T, m *nodetest.Machine, l *ledger.Ledger) []string {
	t.Helper()
	report, err := l.Verify(within(t), kgo.SeedBrokers(m.Addr()))
	require.NoError(t, err)
	var kinds []string
	for _, v := range report.Violations {
		if kind := withoutNumbers(v.What); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

const loadedLog = "data/loaded-0/00000000000000000000.log"

// rewrite replaces the records of the only log with what change makes of them, and drops what was derived from them.
func rewrite(t *testing.T, m *nodetest.Machine, change func(all []batch.Batch) []batch.Batch) {
	t.Helper()
	data, err := vfs.ReadFile(m.FS, loadedLog)
	require.NoError(t, err)
	var all []batch.Batch
	for len(data) > 0 {
		var b batch.Batch
		b, data, err = batch.Next(data)
		require.NoError(t, err)
		all = append(all, slices.Clone(b))
	}
	var changed []byte
	for _, b := range change(all) {
		changed = append(changed, b...)
	}
	require.NoError(t, vfs.WriteFileAtomic(m.FS, loadedLog, changed))
	files, err := m.FS.List(path.Dir(loadedLog))
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasSuffix(f.Name(), "index") || strings.HasSuffix(f.Name(), ".snapshot") {
			require.NoError(t, m.FS.Remove(path.Join(path.Dir(loadedLog), f.Name())))
		}
	}
}

// sealed gives a batch that was changed the checksum of what it holds now.
func sealed(b batch.Batch) batch.Batch {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// withoutNumbers replaces what differs from run to run.
func withoutNumbers(text string) string {
	var b strings.Builder
	digits := false
	for _, r := range text {
		if r >= '0' && r <= '9' {
			if !digits {
				b.WriteByte('#')
			}
			digits = true
			continue
		}
		digits = false
		b.WriteRune(r)
	}
	return b.String()
}

func TestTheLedgerNoticesWhateverADiskMayDoToRecordsAndOffsets(t *testing.T) {
	const tenth = 10
	remove := func(names ...string) func(t *testing.T, m *nodetest.Machine) {
		return func(t *testing.T, m *nodetest.Machine) {
			for _, name := range names {
				require.NoError(t, m.FS.Remove(name))
			}
		}
	}
	rewritten := func(change func(all []batch.Batch) []batch.Batch) func(t *testing.T, m *nodetest.Machine) {
		return func(t *testing.T, m *nodetest.Machine) { rewrite(t, m, change) }
	}
	for name, row := range map[string]struct {
		tamper func(t *testing.T, m *nodetest.Machine)
		want   []string // each kind once
	}{
		"nothing": {tamper: func(*testing.T, *nodetest.Machine) {}},
		"a record is changed": {
			tamper: rewritten(func(all []batch.Batch) []batch.Batch {
				all[tenth][len(all[tenth])-20] ^= 1 // in the value
				sealed(all[tenth])
				return all
			}),
			want: []string{"w#-# was answered with two contents"},
		},
		"two records change places": {
			tamper: rewritten(func(all []batch.Batch) []batch.Batch {
				all[tenth], all[tenth+1] = all[tenth+1], all[tenth]
				all[tenth].SetBaseOffset(tenth)
				all[tenth+1].SetBaseOffset(tenth + 1)
				return all
			}),
			want: []string{"answered with w#-# and later with w#-#", "w#-# follows w#-#"},
		},
		"a record is there again": {
			tamper: rewritten(func(all []batch.Batch) []batch.Batch {
				again := slices.Clone(all[tenth])
				again.SetBaseOffset(all[len(all)-1].NextOffset())
				return append(all, again)
			}),
			want: []string{"w#-# stands at offset # too", "w#-# follows w#-#"},
		},
		"the last record is gone": {
			tamper: rewritten(func(all []batch.Batch) []batch.Batch { return all[:len(all)-1] }),
			want:   []string{"w#-# was acknowledged and is gone; the log is [#, #)"},
		},
		"a record in the middle is gone": {
			tamper: rewritten(func(all []batch.Batch) []batch.Batch { return slices.Delete(all, tenth, tenth+1) }),
			want:   []string{"a hole: the next record is at #", "w#-# was acknowledged and is gone; the log is [#, #)"},
		},
		"a record comes from nowhere": {
			tamper: rewritten(func(all []batch.Batch) []batch.Batch {
				foreign := batch.NewBuilder(batch.BuilderOptions{BaseOffset: all[len(all)-1].NextOffset()})
				foreign.Add(0, []byte("mine"), nil)
				b, _ := foreign.Build() // one record always fits
				return append(all, b)
			}),
			want: []string{`a record that no writer sent: ledger: key "mine" is not one that a writer made: input does not match format`},
		},
		"the log begins later": {
			tamper: func(t *testing.T, m *nodetest.Machine) {
				require.NoError(t, vfs.WriteFileAtomic(m.FS, "data/loaded-0/log-start-offset-checkpoint", []byte("0\n50\n")))
			},
			want: []string{
				"the log starts at #, and nobody asked for the deletion of this",
				"w#-# was acknowledged and is gone; the log is [#, #)",
			},
		},
		"a deletion is undone": {
			tamper: remove("data/log-start-offset-checkpoint", "data/loaded-0/log-start-offset-checkpoint"),
			want: []string{
				"the log starts here, and the deletion of what is below # was acknowledged",
				"w#-# follows w#-#", // those that were deleted
			},
		},
		"the group's offsets are gone": {
			tamper: func(t *testing.T, m *nodetest.Machine) {
				for _, log := range under(tree(t, m.FS, "data/__consumer_offsets-0"), ".log") {
					require.NoError(t, vfs.WriteFileAtomic(m.FS, log, nil))
				}
			},
			want: []string{"the stored offset of group billing; one of # was acknowledged"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := nodetest.New(t)
			m.Config.Groups.OffsetsPartitions = 1
			l, load := smallLoad(t, m)
			require.NoError(t, load.Stop(within(t)))
			l.Delete(0, 5, func() (int64, error) { return 5, deleteBelow(t, client(t, m), "loaded", 5) })
			require.Empty(t, broken(t, m, l), "before")
			m.Stop()
			row.tamper(t, m)
			m.Start()
			require.Equal(t, row.want, broken(t, m, l))
		})
	}
}

func TestTheLedgerNoticesAFlippedBitThatNoChecksumWasMadeFor(t *testing.T) {
	m := nodetest.New(t)
	l, load := smallLoad(t, m)
	require.NoError(t, load.Stop(within(t)))
	m.Stop()
	rewrite(t, m, func(all []batch.Batch) []batch.Batch {
		all[10][len(all[10])-20] ^= 1
		return all
	})
	m.Start()
	_, err := l.Verify(within(t), kgo.SeedBrokers(m.Addr()))
	require.ErrorContains(t, err, "reading loaded back, partition 0 at ")
}
