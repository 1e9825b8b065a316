package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/node"
)

func newRecover() *cobra.Command {
	c := &cobra.Command{
		Use:   "recover",
		Short: "Rebuild lost metadata from the data directory and the bucket",
		Long: `Rebuild the metadata file of a data directory when it is lost and there is no backup. The names and ids of topics, their
partitions and leader epochs come from the partitions' directories; every log is opened as a start would open it, without
changing its files. The committed offsets of groups are records, so they survive.

Streams are rebuilt from the bucket that --store names, into an empty data directory too: their offsets and epochs come
from the indexes of all objects and from the write-ahead logs of all nodes. Records that only a log holds are written to
objects. The servers that used the bucket must be stopped for good.

Topic settings are lost. Until they are set again ('tidemark topic alter'), recovered topics keep every record: nothing is
compacted and nothing expires. Producer ids start above all that were handed out. A bucket does not say which table or
topic a stream belongs to, where it was trimmed, or whether it was deleted: trimmed or deleted records that were not yet
removed reappear. A stream starts where objects reach its end without a gap; what lies below a gap is reported and left
alone. Where several objects hold the same records, the newest are used and the others are removed after a week.

An object or log that is damaged, ambiguous or of an unknown version stops the recovery. --leave-out-damaged continues
without it and lists what it left out. Of a damaged log, the records that can be read and that follow on in their stream
are kept; the whole log is kept under tidemark-salvaged/ in the bucket until 'tidemark wal drop-salvaged', and the next start
removes the original.

Without --execute nothing changes: the command shows what would be rebuilt. Metadata in etcd is not rebuilt: restore etcd.`,
		Example: `  tidemark recover --data-dir /var/lib/tidemark
  tidemark recover --data-dir /var/lib/tidemark --execute
  tidemark recover --data-dir /var/lib/tidemark --store 's3://bucket?region=eu-central-1' --node.id 1 --execute`,
		Args: noArguments,
	}
	var o node.RecoverOptions
	c.Flags().BoolVar(&o.Execute, "execute", false, executeHelp)
	c.Flags().BoolVar(&o.LeaveOut, "leave-out-damaged", false, "rebuild streams without the objects and logs that are damaged or ambiguous")
	output := addOutputFlag(c)
	settings := addSettingFlags(c, "data-dir", "store", "node.id")
	settings.say(c, "store", "the bucket that holds the cluster's streams, as a URL; without it no streams are rebuilt. "+
		"It is written to only with --execute")
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		loaded, err := settings.load(c)
		if err != nil {
			return err
		}
		logs := &recoverBar{w: c.ErrOrStderr(), what: "reading logs"}
		objects := &recoverBar{w: c.ErrOrStderr(), what: "reading objects"}
		o.Store, o.NodeID, o.Progress, o.ObjectProgress = loaded.Server.Store, loaded.Server.NodeID, logs.set, objects.set
		plan, err := node.RecoverMeta(c.Context(), loaded.Server.DataDir, o)
		logs.finish()
		objects.finish()
		if errors.Is(err, fs.ErrExist) {
			return explainMetadata(c, loaded.Server.DataDir, err)
		}
		if errors.Is(err, node.ErrNothingToRecover) {
			fmt.Fprint(c.ErrOrStderr(), toldDirectories(plan.Left, plan.Problems))
			return fmt.Errorf("%w; name the data directory with --data-dir, or the bucket of streams with --store", err)
		}
		var lost *node.StreamsLostError
		if err != nil && !errors.As(err, &lost) {
			return explainTaking(loaded.Server.DataDir, err)
		}
		report := recoverReport{RecoverPlan: plan, Executed: o.Execute && err == nil, leaveOut: o.LeaveOut}
		write := func() error { return report.print(c.OutOrStdout()) }
		if asJSON {
			write = func() error { return writeJSON(c.OutOrStdout(), report) }
		}
		if failed := write(); failed != nil {
			return failed
		}
		if lost != nil {
			return fmt.Errorf("%w (--leave-out-damaged)", err)
		}
		return nil
	}
	return c
}

// explainMetadata says what to do when there is metadata already. Damaged metadata is not replaced either: it may still
// be needed to check a backup against.
func explainMetadata(c *cobra.Command, dataDir string, err error) error {
	found, broken := node.InspectMeta(c.Context(), node.MetaSource{DataDir: dataDir})
	if broken == nil && len(found.Findings) > 0 {
		broken = found.Findings[0]
	}
	if broken == nil {
		return fmt.Errorf("%w: the metadata exists and is intact, so there is nothing to recover", err)
	}
	file := filepath.Join(dataDir, "metadata.db")
	return fmt.Errorf("the metadata is damaged, and recover does not replace it: %w. Move it away first ('mv %s %s.damaged'); "+
		"then restore a backup with 'tidemark restore', which keeps settings, or recover without one", broken, file, file)
}

// recoverBar shows how many logs or objects were read.
type recoverBar struct {
	w    io.Writer
	what string

	mu   sync.Mutex
	bar  *progress // nil until the first log was read
	done int64
}

func (b *recoverBar) set(done, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil {
		b.bar = newProgress(b.w, b.what, int64(total))
	}
	b.done = max(b.done, int64(done))
	b.bar.set(b.done)
}

func (b *recoverBar) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar != nil {
		b.bar.finish(b.done)
	}
}

// recoverReport is what a recovery did, or would do.
type recoverReport struct {
	*node.RecoverPlan
	Executed bool `json:"executed"`

	leaveOut bool
}

func (r recoverReport) print(w io.Writer) error {
	rows := newTable(w, "TOPIC", "ID", "PARTITION", "START", "END", "SIZE", "EPOCH")
	partitions := 0
	var problems []string
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			rows.row(t.Name, t.ID, p.Index, p.Start, p.End, size(p.Bytes), p.LeaderEpoch)
			partitions++
			if p.Problem != "" {
				problems = append(problems, fmt.Sprintf("  %s-%d: %s\n", t.Name, p.Index, p.Problem))
			}
		}
	}
	if err := rows.flush(); err != nil {
		return err
	}
	text := ""
	for _, problem := range problems {
		text += problem
	}
	text += toldDirectories(r.Left, r.Problems)
	if err := r.printStreams(w); err != nil {
		return err
	}
	did := "would rebuild"
	if r.Executed {
		did = "rebuilt"
	}
	text += fmt.Sprintf("\n%s %s: cluster %s, node %d, %s, %s; topics keep every record until their settings are set again\n",
		did, r.Target, r.ClusterID, r.NodeID, plural(len(r.Topics), "topic"), plural(partitions, "partition"))
	if !r.Executed {
		text += nothingChanged + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// toldDirectories returns lines about the directories that are left out, and about faults of the data directory.
func toldDirectories(left []node.LeftDirectory, problems []string) (text string) {
	for _, l := range left {
		text += fmt.Sprintf("  left: %s: %s\n", l.Dir, l.Reason)
	}
	for _, problem := range problems {
		text += fmt.Sprintf("  damaged: %s\n", problem)
	}
	return text
}

// printStreams prints what was found in the bucket.
func (r recoverReport) printStreams(w io.Writer) error {
	s := r.Streams
	if s == nil {
		return nil
	}
	rows := newTable(w, "STREAM", "START", "OBJECTS-END", "END", "EPOCH")
	for _, one := range s.Streams {
		rows.row(one.ID, one.Start, one.ObjectEnd, one.End, one.Epoch)
	}
	if err := rows.flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("\n%s: %s in %s\n", s.Store, plural(len(s.Streams), "stream"), plural(s.Objects, "object"))
	for _, l := range s.Logs {
		state := "recovered"
		if l.Drained {
			state = "nothing to recover"
		}
		text += fmt.Sprintf("  log of node %d, epoch %d: %s\n", l.Node, l.Epoch, state)
	}
	if s.LoggedRecords > 0 {
		text += fmt.Sprintf("  records that only a log holds: %s, %s; written to objects\n", count(s.LoggedRecords), size(s.LoggedBytes))
	}
	if s.Copied > 0 {
		text += fmt.Sprintf("  objects used in part: %s; that part is copied\n", count(s.Copied))
	}
	if s.Replaced > 0 {
		text += fmt.Sprintf("  objects that hold only what others hold too: %s; removed after %v\n", count(s.Replaced),
			time.Duration(s.ReplacedKeptMs)*time.Millisecond)
	}
	for _, f := range s.Findings {
		kind := "note"
		switch {
		case f.Stops && r.leaveOut:
			kind = "left out"
		case f.Stops:
			kind = "stops the recovery"
		}
		text += fmt.Sprintf("  %s: %s\n", kind, f.Detail)
	}
	text += "  a bucket does not say which table or topic a stream belongs to, where it was trimmed, or whether it was deleted\n"
	_, err := io.WriteString(w, text)
	return err
}
