package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/meta"
)

func newMetaCheck() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Verify every entry and snapshot of a metadata log, and what they say",
		Long: `Verify a metadata log: every entry and the newest snapshot decode and match their checksums, no entry is missing, the
snapshot agrees with the entries before it if they are all still there, the objects of every stream cover it without a gap
or an overlap, and every bucket of a table has its stream. If the log is a file, every page of it is read as well.

The log is the file in the data directory of a stopped server, or the one in etcd that --meta-url names, which servers may
be using. Nothing is written. The exit code is 1 if anything is wrong.`,
		Example: `  tidemark meta check --data-dir /var/lib/tidemark
  tidemark meta check --meta-url etcd://10.0.0.1:2379/prod --output json`,
		Args: noArguments,
	}
	output := addOutputFlag(c)
	settings := addMetaFlags(c)
	c.RunE = inspects(settings, output, func(c *cobra.Command, found *meta.Inspection, _ []string, asJSON bool) (err error) {
		checked := newCheckedMeta(found)
		if asJSON {
			err = writeJSON(c.OutOrStdout(), checked)
		} else {
			err = checked.print(c)
		}
		if err == nil && len(checked.Problems) > 0 {
			err = fmt.Errorf("%s has %s", checked.Log, plural(len(checked.Problems), "problem"))
		}
		return err
	})
	return c
}

// checkedMeta is the result of checking a metadata log.
type checkedMeta struct {
	Log        string   `json:"log"`
	ClusterID  string   `json:"cluster_id"`
	FirstEntry uint64   `json:"first_entry"`
	Head       uint64   `json:"head"`
	Entries    int      `json:"entries"`
	EntryBytes int64    `json:"entry_bytes"`
	Snapshot   uint64   `json:"snapshot"`
	SnapBytes  int      `json:"snapshot_bytes"`
	Level      uint32   `json:"level"`
	Problems   []string `json:"problems"`
}

func newCheckedMeta(found *meta.Inspection) checkedMeta {
	checked := checkedMeta{
		Log: found.Where, ClusterID: found.ClusterID, FirstEntry: found.First, Head: found.Head, Entries: found.Entries,
		EntryBytes: found.EntryBytes, Snapshot: found.Snapshot, SnapBytes: found.SnapshotBytes,
		Level: uint32(found.State.Level()), Problems: []string{},
	}
	for _, err := range found.Findings {
		checked.Problems = append(checked.Problems, err.Error())
	}
	return checked
}

func (m checkedMeta) print(c *cobra.Command) error {
	state := "ok"
	if len(m.Problems) > 0 {
		state = "NOT OK"
	}
	w := c.OutOrStdout()
	_, err := fmt.Fprintf(w, "%s  %s  cluster %s  head %d  %d entries from %d, %s  snapshot at %d, %s\n", m.Log, state, m.ClusterID,
		m.Head, m.Entries, m.FirstEntry, size(m.EntryBytes), m.Snapshot, size(int64(m.SnapBytes)))
	for _, text := range m.Problems {
		if err == nil {
			_, err = fmt.Fprintf(w, "  problem: %s\n", text)
		}
	}
	return err
}
