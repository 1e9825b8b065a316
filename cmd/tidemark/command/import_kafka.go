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
log.dir; of a node with several, name all.

Without --execute nothing is changed: what would be taken is listed, and what cannot. With it, every log is recovered as
Kafka would, read and verified before the server can see any of it. An import that was interrupted goes on when it is run
again. What Kafka's server.properties says is not in the directory: name the file with --server-properties to be told
which defaults of topics 'tidemark serve' has to be given, such as how long records are kept.`,
		Example: `  tidemark import kafka-dir /var/lib/kafka --data-dir /var/lib/tidemark
  tidemark import kafka-dir /var/lib/kafka --data-dir /var/lib/tidemark --execute
  tidemark import kafka-dir /disk1/kafka /disk2/kafka --how link --exclude 'tmp-*' --execute`,
		Args: atLeastOne("DIR"),
	}
	var how, properties string
	var execute bool
	var exclude []string
	c.Flags().StringVar(&how, "how", string(importer.Copy), "what to do with Kafka's files: `copy|link|move`")
	c.Flags().BoolVar(&execute, "execute", false, "do it; without it nothing is changed")
	c.Flags().StringArrayVar(&exclude, "exclude", nil, "topics to leave, a `PATTERN`; may be repeated")
	c.Flags().StringVar(&properties, "server-properties", "", "Kafka's configuration `FILE`, to tell which defaults of topics the server lacks")
	completeWords(c, "how", string(importer.Copy), string(importer.Link), string(importer.Move))
	output := addOutputFlag(c)
	settings := addTargetFlags(c)
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

// addTargetFlags gives a command the flags of the server's configuration that say which data directory is meant.
func addTargetFlags(c *cobra.Command) *serverFlags { return addSettingFlags(c, "data-dir", "node.id") }

// addSettingFlags gives a command the flags of some keys of the server's configuration; all others come from the environment
// and the file, as for the server. It panics if there is no such key, which every run of the program would meet.
func addSettingFlags(c *cobra.Command, keys ...string) *serverFlags {
	f := &serverFlags{text: map[string]*string{}}
	c.Flags().StringVar(&f.file, config.FileKey, "", "YAML `FILE` with the server's settings")
	definitions := config.Definitions()
	for _, key := range keys {
		i := slices.IndexFunc(definitions, func(d config.Definition) bool { return d.Key == key })
		if i < 0 {
			panic("no setting is called " + key)
		}
		value := new(string)
		f.text[key] = value
		c.Flags().StringVar(value, key, definitions[i].Default, flagDoc(definitions[i]))
	}
	return f
}

// say gives the flag of a key words that are truer of a command than those of the server.
func (f *serverFlags) say(c *cobra.Command, key, doc string) {
	for _, d := range config.Definitions() {
		if d.Key == key {
			d.Doc = doc
			c.Flags().Lookup(key).Usage = flagDoc(d)
		}
	}
}

// readProperties reads a server.properties; nothing if no file is named.
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

// importOptions are the server's settings as far as they matter to an import.
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
	stopped := "was stopped in order"
	if !r.Clean {
		stopped = "was not stopped in order: logs are recovered, as Kafka would"
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
			fmt.Fprintf(w, "  topic %s: the target has it already\n", t.Name)
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
		fmt.Fprintf(w, "  broker setting %s=%s: servers here have their own settings\n", name, r.BrokerConfigs[name])
	}
}

// printDefaults says what the server has to be told, so that it keeps records as long as Kafka did.
func (r importReport) printDefaults(w io.Writer) {
	if len(r.TopicDefaults) == 0 {
		return
	}
	fmt.Fprintln(w, "\nKafka's topics had other defaults than the server's. Before it starts, give it these:")
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
	_, err := fmt.Fprintf(w, "\n%s %d topic(s), %d partition(s), %s into %s by %s\n", did, len(r.Taken()), partitions, size(r.Bytes()),
		r.Target, r.How)
	if err == nil && !r.Executed {
		_, err = fmt.Fprintln(w, "nothing was changed; --execute does it")
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

// end needs b.mu.
func (b *importBar) end() {
	if b.bar != nil {
		b.bar.finish(b.done)
	}
	b.bar = nil
}
