package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/node"
)

func newRecover() *cobra.Command {
	c := &cobra.Command{
		Use:   "recover",
		Short: "Make lost metadata again from the data directory",
		Long: `Make the metadata file of a data directory again that was lost without a backup. The names and ids of topics, their
partitions and leader epochs are read from the directories; every log is opened as a start would, over its files. Committed
offsets of groups are records, and are there again.

Lost for good are the settings of topics. Until somebody sets them again ('tidemark topic config'), recovered topics keep
everything: a compacted topic is not compacted, and none is cut. Producer ids begin above all that were given out.

Without --execute nothing is changed: what would be made is told. Streams in a bucket cannot be made again: where the
server's store holds any, restore a backup. With metadata in etcd, restore etcd.`,
		Example: `  tidemark recover --data-dir /var/lib/tidemark
  tidemark recover --data-dir /var/lib/tidemark --execute`,
		Args: noArguments,
	}
	var execute bool
	c.Flags().BoolVar(&execute, "execute", false, "do it; without it nothing is changed")
	output := addOutputFlag(c)
	settings := addSettingFlags(c, "data-dir", "store")
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		loaded, err := settings.load(c)
		if err != nil {
			return err
		}
		bar := &recoverBar{w: c.ErrOrStderr()}
		o := node.RecoverOptions{Execute: execute, Store: loaded.Server.Store, Progress: bar.set}
		plan, err := node.RecoverMeta(c.Context(), loaded.Server.DataDir, o)
		bar.finish()
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: there is metadata, so nothing is to be recovered; 'tidemark meta check' says whether it is whole", err)
		}
		if err != nil {
			return err
		}
		report := recoverReport{RecoverPlan: plan, Executed: execute}
		if asJSON {
			return writeJSON(c.OutOrStdout(), report)
		}
		return report.print(c.OutOrStdout())
	}
	return c
}

// recoverBar shows how many logs were read.
type recoverBar struct {
	w io.Writer

	mu   sync.Mutex
	bar  *progress // nil until the first log was read
	done int64
}

func (b *recoverBar) set(done, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bar == nil {
		b.bar = newProgress(b.w, "reading logs", int64(total))
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
	for _, l := range r.Left {
		text += fmt.Sprintf("  left: %s: %s\n", l.Dir, l.Reason)
	}
	did := "would make"
	if r.Executed {
		did = "made"
	}
	text += fmt.Sprintf("\n%s %s: cluster %s, node %d, %d topic(s), %d partition(s); they keep everything until their settings are set "+
		"again\n", did, r.Target, r.ClusterID, r.NodeID, len(r.Topics), partitions)
	if !r.Executed {
		text += "nothing was changed; --execute does it\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
