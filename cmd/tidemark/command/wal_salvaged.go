package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

func newWALDropSalvaged() *cobra.Command {
	var execute bool
	only := int64(-1)
	c := &cobra.Command{
		Use:   "drop-salvaged URL",
		Short: "Drop what recoveries kept of damaged write-ahead logs",
		Long: `Delete the objects under tidemark-salvaged/ of a bucket, where 'tidemark recover --leave-out-damaged' keeps all objects of
logs that it could not read completely. Nothing needs them: the records that could be read are in objects of their streams.
They are useful only to somebody who can read more of them ('tidemark object dump'), and cost what their bytes cost.

Without --execute nothing changes: the command shows what would be deleted, log by log. Deleting cannot be undone.

URL is a directory, s3://BUCKET, gs://BUCKET or azblob://CONTAINER, followed by /PREFIX if the objects are below one.`,
		Example: `  tidemark wal drop-salvaged 's3://bucket?region=eu-central-1'
  tidemark wal drop-salvaged 's3://bucket?region=eu-central-1' --node 5 --execute`,
		Args: exactly("URL"),
	}
	c.Flags().BoolVar(&execute, "execute", false, executeHelp)
	c.Flags().Int64Var(&only, "node", -1, "drop only the log of the node `ID`; -1 is every node")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		open := node.ReadObjects
		if execute {
			open = openWhatIsThere
		}
		store, err := open(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		logs, err := stream.SalvagedLogs(c.Context(), store)
		if err != nil {
			return err
		}
		if only >= 0 {
			logs = slices.DeleteFunc(logs, func(l stream.SalvagedLog) bool { return l.Node != catalog.NodeID(only) })
		}
		if execute {
			for _, l := range logs {
				if err := l.Drop(c.Context(), store); err != nil {
					return fmt.Errorf("%s is only partly deleted; run the command again: %w", l.Prefix, err)
				}
			}
		}
		return reportSalvaged(c, store.String(), logs, execute, asJSON)
	}
	return c
}

// openWhatIsThere opens an existing store for writing; it creates none.
func openWhatIsThere(ctx context.Context, url string) (objstore.Store, error) {
	look, err := node.ReadObjects(ctx, url)
	if err != nil {
		return nil, err
	}
	if err := look.Close(); err != nil {
		return nil, err
	}
	return node.WriteObjects(ctx, url)
}

// salvagedReport is what was dropped, or would be.
type salvagedReport struct {
	Store    string        `json:"store"`
	Logs     []salvagedLog `json:"logs"`
	Objects  int           `json:"objects"`
	Bytes    int64         `json:"bytes"`
	Executed bool          `json:"executed"`
}

type salvagedLog struct {
	Prefix  string    `json:"prefix"`
	Cluster string    `json:"cluster,omitempty"`
	Node    *int64    `json:"node,omitempty"`
	Objects int       `json:"objects"`
	Bytes   int64     `json:"bytes"`
	Since   time.Time `json:"since"`
}

func reportSalvaged(c *cobra.Command, store string, logs []stream.SalvagedLog, executed, asJSON bool) error {
	report := salvagedReport{Store: store, Logs: []salvagedLog{}, Executed: executed}
	for _, l := range logs {
		report.Logs = append(report.Logs, salvagedLog{l.Prefix, l.Cluster, ifAny(l.Node), l.Objects, l.Bytes, l.Since.UTC()})
		report.Objects, report.Bytes = report.Objects+l.Objects, report.Bytes+l.Bytes
	}
	if asJSON {
		return writeJSON(c.OutOrStdout(), report)
	}
	rows := newTable(c.OutOrStdout(), "PREFIX", "CLUSTER", "OBJECTS", "SIZE", "SINCE")
	for _, l := range report.Logs {
		rows.row(l.Prefix, l.Cluster, l.Objects, size(l.Bytes), l.Since.Format(time.RFC3339))
	}
	err := rows.flush()
	did := "would drop"
	if executed {
		did = "dropped"
	}
	_, printed := fmt.Fprintf(c.OutOrStdout(), "%s  %s %s, %s\n", store, did, plural(report.Objects, "object"), size(report.Bytes))
	return errors.Join(err, printed, dryRunNote(c, executed, "deleted"))
}
