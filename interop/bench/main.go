package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	servers string        // comma-separated variants
	rounds  int           // measured rounds
	phase   time.Duration // how long each producing phase lasts
	warm    time.Duration // load on Kafka before the first round
	dir     string        // where servers put their data
	output  string        // the file whose table is replaced; empty prints it only
	command string        // how this run was started, for the table's caption
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "groups":
			exitOn(groupsMain(ctx, os.Args[2:]))
			return
		case "flusher":
			exitOn(flusherMain(ctx, os.Args[2:]))
			return
		}
	}
	var o options
	flag.StringVar(&o.servers, "servers", "tidemark,tidemark-os,kafka", "what to measure: "+strings.Join(variantNames(), ", "))
	flag.IntVar(&o.rounds, "rounds", 5, "measured rounds")
	flag.DurationVar(&o.phase, "phase", 8*time.Second, "how long each producing phase lasts")
	flag.DurationVar(&o.warm, "warm", 100*time.Second, "load on Kafka before the first round; tidemark gets a tenth")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the servers put their data")
	flag.StringVar(&o.output, "output", "", "Markdown file whose table between the bench:kafka markers is replaced")
	flag.Parse()
	o.command = fmt.Sprintf("bench -servers %s -rounds %d -phase %v -warm %v", o.servers, o.rounds, o.phase, o.warm)
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

// run starts the servers, warms them, measures, and writes the table.
func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.dir, "tidemark-bench-")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
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
	results := &results{command: o.command, rounds: o.rounds, phase: o.phase, warm: o.warm}
	for round := range o.rounds {
		for _, w := range workloads {
			for i := range variants {
				v := variants[i]
				if round%2 == 1 {
					v = variants[len(variants)-1-i]
				}
				produced, consumed, err := measure(ctx, v, w, o.phase, fmt.Sprintf("bench-%s-%d-%s", v.name, round, w.slug))
				if err != nil {
					return err
				}
				fmt.Printf("round %d  %-12s %-20s produce %s  consume %s\n", round+1, v.name, w.name, produced, consumed)
				results.add(v, w, produced, consumed)
			}
		}
	}
	for _, v := range variants {
		if err := results.addPeak(v); err != nil {
			return err
		}
	}
	table := results.table()
	fmt.Printf("\n%s", table)
	if o.output == "" {
		return nil
	}
	return replaceTable(o.output, table)
}
