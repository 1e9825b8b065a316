package command

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/config"
	"github.com/tidemark-io/tidemark/logdir"
	"github.com/tidemark-io/tidemark/node/importer"
)

func newImportKafkaDir() *cobra.Command {
	c := &cobra.Command{
		Use:   "kafka-dir DIR...",
		Short: "Adopt the log directory of a stopped Apache Kafka node",
		Long: `Adopt the log directory of a stopped Apache Kafka node (KRaft) into a data directory: topics with their ids,
partitions, settings, records, offsets and leader epochs, and the offsets that groups have committed. DIR is Kafka's
log.dir; if the node has several, name all of them.

Without --execute nothing changes: the command lists what would be taken and what cannot be. With it, every log is
recovered as Kafka would recover it, read and verified before the server can see any of it. To continue an interrupted
import, run the same command again.

Kafka's server.properties is not part of the directory. Name it with --server-properties to learn which topic defaults,
such as how long records are kept, 'tidemark serve' needs to behave as Kafka did.`,
		Example: `  tidemark import kafka-dir /var/lib/kafka --data-dir /var/lib/tidemark
  tidemark import kafka-dir /var/lib/kafka --data-dir /var/lib/tidemark --execute
  tidemark import kafka-dir /disk1/kafka /disk2/kafka --how link --exclude 'tmp-*' --execute`,
		Args: atLeastOne("DIR"),
	}
	var how, properties string
	var execute bool
	var exclude []string
	addWordFlag(c, &how, "how", "", "what to do with Kafka's files", string(importer.Copy), string(importer.Link), string(importer.Move))
	c.Flags().BoolVar(&execute, "execute", false, executeHelp)
	c.Flags().StringArrayVar(&exclude, "exclude", nil, "leave out topics that match `PATTERN`; may be repeated")
	c.Flags().StringVar(&properties, "server-properties", "", "Kafka's configuration `FILE`, to see which topic defaults differ")
	output := addOutputFlag(c)
	settings := addSettingFlags(c, "data-dir", "node.id")
	c.RunE = func(c *cobra.Command, dirs []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		way, err := importer.ParseHow(how)
		if err != nil {
			return usagef(c, "--how: %v", err)
		}
		loaded, err := settings.load(c)
		if err != nil {
			return err
		}
		o := importOptions(loaded.Server)
		o.Sources, o.How, o.Exclude = dirs, way, exclude
		if o.Properties, err = readProperties(properties); err != nil {
			return err
		}
		return importKafka(c, o, execute, asJSON)
	}
	return c
}

// readProperties reads a server.properties, or returns nil if no file is named.
func readProperties(name string) (map[string]string, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	properties, err := logdir.ParseProperties(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return properties, nil
}

// importOptions are the server's settings that matter to an import.
func importOptions(s config.Server) importer.Options {
	n := nodeSettings(s, limits{})
	return importer.Options{
		Target: n.DataDir, NodeID: n.NodeID, TopicDefaults: n.TopicDefaults, TopicPatterns: n.TopicPatterns,
	}
}

func importKafka(c *cobra.Command, o importer.Options, execute, asJSON bool) error {
	bar := &importBar{w: c.ErrOrStderr()}
	o.Progress = bar.set
	im, err := importer.Open(c.Context(), o)
	if err != nil {
		return err
	}
	plan := im.Plan()
	report := importReport{Plan: plan, Resumed: im.Resumed(), Executed: execute}
	if execute {
		err = im.Execute(c.Context())
	}
	bar.finish()
	if closeErr := im.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(c.OutOrStdout(), report)
	}
	return report.print(c.OutOrStdout())
}

// importReport is what an import did, or would do.
type importReport struct {
	*importer.Plan
	Resumed  bool `json:"resumed"`
	Executed bool `json:"executed"`
}

func (r importReport) print(w io.Writer) error {
	stopped := "was stopped cleanly"
	if !r.Clean {
		stopped = "was not stopped cleanly: its logs are recovered as Kafka would recover them"
	}
	fmt.Fprintf(w, "Kafka node %d of cluster %s %s\n\n", r.NodeID, r.ClusterID, stopped)
	if err := r.printTopics(w); err != nil {
		return err
	}
	r.printLeft(w)
	r.printDefaults(w)
	return r.printEnd(w)
}

func (r importReport) printTopics(w io.Writer) error {
	rows := newTable(w, "TOPIC", "PARTITION", "START", "END", "SIZE", "EPOCH")
	for _, t := range r.Taken() {
		for _, p := range t.Partitions {
			rows.row(t.Name, p.Index, p.Start, p.End, size(p.Bytes), p.LeaderEpoch)
		}
	}
	if err := rows.flush(); err != nil {
		return err
	}
	for _, t := range r.Taken() {
		for _, p := range t.Partitions {
			for _, repair := range p.Repairs {
				fmt.Fprintf(w, "  %s-%d: %s\n", t.Name, p.Index, repair)
			}
		}
		for _, note := range t.Notes {
			fmt.Fprintf(w, "  %s: %s\n", t.Name, note)
		}
		for _, s := range t.Dropped {
			fmt.Fprintf(w, "  %s: setting %s=%s is not taken: %s\n", t.Name, s.Name, s.Value, s.Reason)
		}
	}
	return nil
}

func (r importReport) printLeft(w io.Writer) {
	first := true
	heading := func() {
		if first {
			fmt.Fprintln(w, "\nNot taken:")
		}
		first = false
	}
	for _, t := range r.Topics {
		switch {
		case t.There:
			heading()
			fmt.Fprintf(w, "  topic %s: the data directory has it already\n", t.Name)
		case t.Refused != "":
			heading()
			fmt.Fprintf(w, "  topic %s: %s\n", t.Name, t.Refused)
		}
	}
	for _, l := range r.Left {
		heading()
		fmt.Fprintf(w, "  %s: %s\n", l.Dir, l.Reason)
	}
	for _, name := range slices.Sorted(maps.Keys(r.BrokerConfigs)) {
		heading()
		fmt.Fprintf(w, "  broker setting %s=%s: a Tidemark server has settings of its own\n", name, r.BrokerConfigs[name])
	}
}

// printDefaults prints the settings that the server needs to keep records as long as Kafka did.
func (r importReport) printDefaults(w io.Writer) {
	if len(r.TopicDefaults) == 0 {
		return
	}
	fmt.Fprintln(w, "\nKafka had other topic defaults. Start the server with these flags to keep them:")
	for _, name := range slices.Sorted(maps.Keys(r.TopicDefaults)) {
		fmt.Fprintf(w, "  --topic-default %s=%s\n", name, r.TopicDefaults[name])
	}
}

func (r importReport) printEnd(w io.Writer) error {
	partitions := 0
	for _, t := range r.Taken() {
		partitions += len(t.Partitions)
	}
	did := "would take"
	if r.Executed {
		did = "took, verified and synced"
	}
	_, err := fmt.Fprintf(w, "\n%s %s, %s, %s into %s by %s\n", did, plural(len(r.Taken()), "topic"), plural(partitions, "partition"),
		size(r.Bytes()), r.Target, r.How)
	if err == nil && !r.Executed {
		_, err = fmt.Fprintln(w, nothingChanged)
	}
	return err
}

// importBar shows the phases of an import one after the other.
type importBar struct {
	w io.Writer

	mu    sync.Mutex
	phase string
	bar   *progress
	done  int64
}

func (b *importBar) set(phase string, done, total int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase != phase {
		b.end()
		b.phase, b.bar = phase, newProgress(b.w, phase, total)
		if phase == "import" {
			b.bar.unit = size
		}
	}
	b.done = done
	b.bar.set(done)
}

func (b *importBar) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end()
}

// end is called with b.mu held.
func (b *importBar) end() {
	if b.bar != nil {
		b.bar.finish(b.done)
	}
	b.bar = nil
}
