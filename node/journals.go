package node

import (
	"path"

	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
)

// Journal is what a journal of a data directory holds.
type Journal struct {
	File string // its path
	// Waits says that a full disk, or a file that the disk failed, kept part of it from being restored at the last start.
	Waits bool
	// Failed says that it has records of partitions that failed while the server ran, moved out of its journal.
	Failed bool
	// Held are its records, by partition and segment, in the order in which they were first written to it.
	Held []JournaledRecords
	// Problem says what is wrong with it, or is nil. Records before the damage are in Held.
	Problem error
}

// JournaledRecords are records of one segment of a partition in a journal.
type JournaledRecords struct {
	// Dir is the name of the partition's directory, empty if no directory has that topic id and number any more.
	Dir     string
	TopicID string
	Index   int32
	Segment int64 // its base offset
	Bytes   int64
	// The records have offsets from First up to, but not including, Next.
	First, Next int64
}

// Journals returns the journals of the directory, in the order in which a start restores them. They are known only if the
// directory was opened read-only.
func (s *StoppedDir) Journals() []Journal { return s.journals }

// StoppedCleanly reports whether the last stop was clean when the directory was locked. A journal that still exists is then
// older than the logs, and a start removes it.
func (s *StoppedDir) StoppedCleanly() bool { return s.clean }

// PutBack returns how many files and bytes of logs were restored from the journal, or would be.
func (s *StoppedDir) PutBack() (files int, bytes int64) { return s.putBack.Written, s.putBack.Bytes }

// LeftJournals returns the names of journals that earlier starts kept because they could not be restored completely.
// Nothing reads them.
func (s *StoppedDir) LeftJournals() []string { return s.left }

// inspectJournals reads the journals.
func (d *dataDir) inspectJournals(view *meta.State) ([]Journal, error) {
	found, err := partition.InspectJournals(d.fs, d.path)
	if err != nil {
		return nil, err
	}
	find := d.journaledDirs(view)
	all := make([]Journal, len(found))
	for i, f := range found {
		all[i] = Journal{File: path.Join(d.path, f.Name), Waits: f.Waits, Failed: f.Failed, Problem: f.Problem}
		for _, h := range f.Held {
			records := JournaledRecords{
				TopicID: logdir.UUID(h.Topic).String(), Index: h.Partition, Segment: h.Base, Bytes: h.Bytes, First: h.First, Next: h.Next,
			}
			if dir, ok := find(h.Topic, h.Partition); ok {
				records.Dir = path.Base(dir)
			}
			all[i].Held = append(all[i].Held, records)
		}
	}
	return all, nil
}
