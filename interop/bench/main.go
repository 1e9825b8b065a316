package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	servers string        // comma-separated variants
	parts   string        // comma-separated parts
	rounds  int           // measured rounds
	phase   time.Duration // how long each producing phase lasts
	warm    time.Duration // load on Kafka before the first round
	dir     string        // where servers put their data
	output  string        // the file whose table is replaced; empty prints it only
	fill    bool          // fill the page cache before each producing phase
	command string        // how this run was started, for the table's caption
}

// allParts are what a run may measure.
const allParts = "throughput,endtoend,cold,starts"

// has reports whether a part is to be measured.
func (o options) has(part string) bool { return slices.Contains(strings.Split(o.parts, ","), part) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "groups":
			exitOn(groupsMain(ctx, os.Args[2:]))
			return
		case "flusher":
			exitOn(flusherMain(ctx, os.Args[2:]))
			return
		case "profile":
			exitOn(profileMain(ctx, os.Args[2:]))
			return
		case "floor":
			exitOn(floorMain(os.Args[2:]))
			return
		}
	}
	var o options
	flag.StringVar(&o.servers, "servers", "tidemark,tidemark-os,kafka,kafka-flush,floor,null", "what to measure: "+strings.Join(variantNames(), ", "))
	flag.StringVar(&o.parts, "parts", allParts, "which measurements to make")
	flag.IntVar(&o.rounds, "rounds", 5, "measured rounds")
	flag.DurationVar(&o.phase, "phase", 2*time.Second, "how long each producing phase lasts")
	flag.DurationVar(&o.warm, "warm", 100*time.Second, "load on Kafka before the first round; tidemark gets a tenth")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the servers put their data")
	flag.StringVar(&o.output, "output", "", "Markdown file whose tables between the markers of the measured parts, such as bench:throughput, are replaced")
	flag.BoolVar(&o.fill, "fill", false, "fill the page cache before each producing phase, which takes as long as the machine has free memory")
	flag.Parse()
	o.command = fmt.Sprintf("bench/kafka.sh -servers %s -parts %s -rounds %d -phase %v -warm %v", o.servers, o.parts, o.rounds, o.phase, o.warm)
	if o.fill {
		o.command += " -fill"
	}
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	exitOn(run(ctx, o))
}

// exitOn ends the program if there is an error.
func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts the servers, warms them, measures, and writes the tables.
func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.dir, "tidemark-bench-")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	if o.has("throughput") || o.has("endtoend") || o.has("cold") {
		if err := underLoad(ctx, o, dir); err != nil {
			return err
		}
	}
	if !o.has("starts") {
		return nil
	}
	table, err := starts(ctx, startKinds(o), o.rounds, dir)
	if err != nil {
		return err
	}
	return publish(o, "starts", table)
}

// publish prints tables, and puts them into the file's section of that name if there is a file.
func publish(o options, section string, tables ...string) error {
	text := fmt.Sprintf("%s\n\n`%s`. Median (least – most) of the rounds.\n\n%s", machine(), o.command, strings.Join(tables, "\n"))
	fmt.Printf("\n%s", text)
	if o.output == "" {
		return nil
	}
	return replaceSection(o.output, section, text)
}

// startKinds are the servers whose starts are measured.
func startKinds(o options) []startsOf {
	var kinds []startsOf
	for name := range strings.SplitSeq(o.servers, ",") {
		if v, err := describe(name); err == nil && v.stores() && len(v.topicConfigs) == 0 {
			kinds = append(kinds, startsOf{kind: v.process, title: v.title})
		}
	}
	return kinds
}

// underLoad measures what is measured on servers that run and are warm, and writes the tables.
func underLoad(ctx context.Context, o options, dir string) error {
	variants, stop, err := startVariants(ctx, strings.Split(o.servers, ","), dir)
	defer stop()
	if err != nil {
		return err
	}
	for _, v := range variants {
		if err := warm(ctx, v, v.warmth(o.warm)); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		name string
		run  func() (string, error)
	}{
		{"throughput", func() (string, error) { return throughput(ctx, o, variants, dir) }},
		{"endtoend", func() (string, error) { return endToEnd(ctx, variants, o.rounds, 2*o.phase, dir) }},
		{"cold", func() (string, error) { return cold(ctx, variants, o.rounds, o.phase) }},
	} {
		if !o.has(part.name) {
			continue
		}
		table, err := part.run()
		if err != nil {
			return err
		}
		if err := publish(o, part.name, table); err != nil {
			return err
		}
	}
	return nil
}

// throughput measures producing and consuming.
func throughput(ctx context.Context, o options, variants []*variant, dir string) (string, error) {
	var cache *pageCache
	if o.fill {
		var err error
		if cache, err = newPageCache(dir); err != nil {
			return "", err
		}
		defer cache.close()
	}
	results := &results{phase: o.phase, warm: o.warm}
	for round := range o.rounds {
		for _, w := range workloads {
			for _, partitions := range spreads {
				for i := range variants {
					v := variants[i]
					if round%2 == 1 {
						v = variants[len(variants)-1-i]
					}
					topic := fmt.Sprintf("bench-%s-%d-%s-%d", v.name, round, w.slug, partitions)
					produced, consumed, err := measure(ctx, v, cache, w, partitions, o.phase, topic)
					if err != nil {
						return "", err
					}
					fmt.Printf("round %d  %-12s %-20s %2d partitions  produce %s  consume %s\n",
						round+1, v.name, w.name, partitions, produced, consumed)
					results.add(v, w, partitions, produced, consumed)
				}
			}
		}
	}
	return results.table(), nil
}
