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

// skippedProducerIDs is how many producer ids a restore leaves out unless it is told otherwise: more than servers give out
// between two backups.
const skippedProducerIDs = 1_000_000

func newRestore() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a metadata log from a backup",
		Long: `Make the metadata log of a node or cluster from a FILE that 'tidemark backup' wrote, in the data directory or in etcd
(--meta-url). There must be none: what is there is never replaced. The log is there as a whole, or not at all.

Without --execute nothing is changed: what would be made is told, which partitions of the backup have no directory and
begin empty, and which directories the backup does not know and a start moves aside.

Whatever was changed after the backup is lost. Producer ids that servers may have given out since are left out, and so are
leader epochs that began since, by the logs of the data directory; the server that used a bucket for streams refuses to
start when a node epoch would be given out again.`,
		Example: `  tidemark restore /backup/tidemark.meta --data-dir /var/lib/tidemark
  tidemark restore /backup/tidemark.meta --data-dir /var/lib/tidemark --execute
  tidemark restore /backup/tidemark.meta --data-dir /var/lib/tidemark --meta-url etcd://10.0.0.1:2379/prod --execute`,
		Args: exactly("FILE"),
	}
	var o node.RestoreOptions
	c.Flags().BoolVar(&o.Execute, "execute", false, "do it; without it nothing is changed")
	c.Flags().Uint64Var(&o.SkipProducerIDs, "skip-producer-ids", skippedProducerIDs,
		"how many producer ids are not given out; 0 restores the state as it was, leader epochs too")
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
			return fmt.Errorf("%s is there, and a restore replaces nothing: move it away first", target)
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
	did := "would make"
	if r.Executed {
		did = "made"
	}
	text := fmt.Sprintf("%s %s: cluster %s, %d topics, %d partitions, producer ids from %d\n", did, r.Target, r.ClusterID, r.Topics,
		r.Partitions, r.NextProducerID)
	text += someOf("partition(s) have no directory and begin empty", r.Missing)
	text += someOf("director(ies) are unknown to the backup; a start moves them aside", r.Unknown)
	text += toldDirectories(r.Left, r.Problems)
	if !r.Executed {
		text += "nothing was changed; --execute does it\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// someOf is a line about some things, the first of them by name.
func someOf(what string, names []string) string {
	const named = 10
	if len(names) == 0 {
		return ""
	}
	some := strings.Join(names[:min(named, len(names))], ", ")
	if len(names) > named {
		some += ", …"
	}
	return fmt.Sprintf("  %d %s: %s\n", len(names), what, some)
}
