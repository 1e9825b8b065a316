package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/meta"
)

func newMetaDump() *cobra.Command {
	c := &cobra.Command{
		Use:   "dump [TABLE...]",
		Short: "Print what a metadata log says, table by table",
		Long: `Print the state of a metadata log, all of it or the named tables: nodes, topics, keys, streams, transfers, stream-sets,
stream-objects, prepared, destroyed, tables, schemas, partitions, buckets and dropped. A log with a damaged entry is printed
up to that entry, and the exit code is then 1.

The log is the file in the data directory of a stopped server, or the one in etcd that --meta-url names, which servers may
be using. Nothing is written.`,
		Example: `  tidemark meta dump --data-dir /var/lib/tidemark
  tidemark meta dump topics nodes --meta-url etcd://10.0.0.1:2379/prod
  tidemark meta dump streams --output json`,
	}
	output := addOutputFlag(c)
	settings := addMetaFlags(c)
	c.Args = func(c *cobra.Command, tables []string) error { return checkTables(c, tables) }
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return tableNames(), cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = inspects(settings, output, func(c *cobra.Command, found *meta.Inspection, tables []string, asJSON bool) (err error) {
		dump := newMetaDumpOf(found, tables)
		if asJSON {
			err = writeJSON(c.OutOrStdout(), dump.json())
		} else {
			err = dump.print(c.OutOrStdout())
		}
		if err == nil && len(found.Findings) > 0 {
			err = found.Findings[0]
		}
		return err
	})
	return c
}

// tableNames are the tables in the order in which they are printed.
func tableNames() (names []string) {
	for _, t := range metaTables() {
		names = append(names, t.name)
	}
	return names
}

func checkTables(c *cobra.Command, tables []string) error {
	for _, name := range tables {
		if !slices.Contains(tableNames(), name) {
			return usagef(c, "there is no table %q; there are %s", name, strings.Join(tableNames(), ", "))
		}
	}
	return nil
}

// json returns the dump as one object, with a list for each table.
func (d metaDump) json() map[string]any {
	out := map[string]any{
		"log": d.found.Where, "cluster_id": d.found.ClusterID, "index": d.state.Index(), "clock_ms": d.state.ClockMs(),
		"level": d.state.Level(), "next_producer_id": d.state.NextProducerID(), "next_object": d.state.NextObject(),
		"coordinator_epoch": d.state.Coordinator().Epoch, "coordinator_node": d.state.Coordinator().Node,
	}
	for _, t := range d.tables {
		out[strings.ReplaceAll(t.name, "-", "_")] = t.rows(d.state)
	}
	return out
}

func (d metaDump) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\ncluster %s, index %d, level %d, clock %s\n", d.found.Where, d.found.ClusterID, d.state.Index(),
		d.state.Level(), moment(d.state.ClockMs()))
	for _, t := range d.tables {
		if err != nil {
			return err
		}
		rows := t.rows(d.state)
		if _, err = fmt.Fprintf(w, "\n%s: %d\n", t.name, len(rows)); err != nil || len(rows) == 0 {
			continue
		}
		out := newTable(w, t.header...)
		for _, r := range rows {
			out.row(r.cells()...)
		}
		err = out.flush()
	}
	return err
}
