package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
)

// skippedProducerIDs is how many producer ids a restore skips by default: more than servers assign between two backups.
const skippedProducerIDs = 1_000_000

func newRestore() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a metadata log from a backup",
		Long: `Restore the metadata log of a node or cluster from a FILE that 'tidemark backup' wrote, into the data directory or into
etcd (--meta-url). An existing log is never replaced, and a failed restore leaves nothing behind.

Without --execute nothing changes: the command shows what would be restored, which partitions in the backup have no
directory and would start empty, and which directories the backup does not know and the next start would move aside.

Changes made after the backup are lost. Producer ids that servers may have handed out since are skipped, and so are leader
epochs that the logs in the data directory show to have begun since. A server with streams in a bucket refuses to start if
a node epoch would be used twice.`,
		Example: `  tidemark restore /backup/tidemark.meta --data-dir /var/lib/tidemark
  tidemark restore /backup/tidemark.meta --data-dir /var/lib/tidemark --execute
  tidemark restore /backup/tidemark.meta --data-dir /var/lib/tidemark --meta-url etcd://10.0.0.1:2379/prod --execute`,
		Args: exactly("FILE"),
	}
	var o node.RestoreOptions
	c.Flags().BoolVar(&o.Execute, "execute", false, executeHelp)
	c.Flags().Uint64Var(&o.SkipProducerIDs, "skip-producer-ids", skippedProducerIDs,
		"how many producer ids to skip; 0 restores exactly what was backed up, leader epochs included")
	nameValue(c.Flags(), "skip-producer-ids", "N")
	output := addOutputFlag(c)
	settings := addMetaFlags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		target, _, err := metaSource(c, settings)
		if err != nil {
			return err
		}
		b, err := readBackup(args[0])
		if err != nil {
			return err
		}
		plan, err := node.RestoreMeta(c.Context(), target, b, o)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already, and restore replaces nothing: move it away first", target)
		}
		if err != nil {
			return explainTaking(target.DataDir, err)
		}
		report := restoreReport{RestorePlan: plan, Executed: o.Execute}
		if asJSON {
			return writeJSON(c.OutOrStdout(), report)
		}
		return report.print(c.OutOrStdout())
	}
	return c
}

func readBackup(name string) (meta.Backup, error) {
	f, err := os.Open(name)
	if err != nil {
		return meta.Backup{}, err
	}
	defer f.Close()
	b, err := meta.ReadBackup(f)
	if err != nil {
		return meta.Backup{}, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// restoreReport is what a restore did, or would do.
type restoreReport struct {
	*node.RestorePlan
	Executed bool `json:"executed"`
}

func (r restoreReport) print(w io.Writer) error {
	did := "would restore"
	if r.Executed {
		did = "restored"
	}
	text := fmt.Sprintf("%s %s: cluster %s, %s, %s, producer ids from %d\n", did, r.Target, r.ClusterID, plural(r.Topics, "topic"),
		plural(r.Partitions, "partition"), r.NextProducerID)
	text += someOf("in the backup but without a directory, will start empty", r.Missing)
	text += someOf("with a directory but not in the backup, will be moved aside by the next start", r.Unknown)
	text += toldDirectories(r.Left, r.Problems)
	if !r.Executed {
		text += nothingChanged + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// someOf formats a line about partitions that names the first few.
func someOf(what string, names []string) string {
	const named = 10
	if len(names) == 0 {
		return ""
	}
	some := strings.Join(names[:min(named, len(names))], ", ")
	if len(names) > named {
		some += ", …"
	}
	return fmt.Sprintf("  %s %s: %s\n", plural(len(names), "partition"), what, some)
}
