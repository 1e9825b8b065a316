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
	stores  string        // comma-separated kinds of stores
	only    string        // comma-separated measurements; empty for all
	phase   time.Duration // how long each load lasts
	lone    int           // appends on an idle bucket
	bytes   int64         // that are read back and recovered
	dir     string        // where the stores put their data
	output  string        // the file whose table is replaced; empty prints it only
	command string        // how this run was started, for the table's caption
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.stores, "stores", "dir,seaweedfs", "what to measure: dir, seaweedfs")
	flag.StringVar(&o.only, "only", "", "which measurements, all if empty: lone, load, tail, scan, recovery, memory")
	flag.DurationVar(&o.phase, "phase", 5*time.Second, "how long each load lasts")
	flag.IntVar(&o.lone, "lone", 100, "appends on an idle bucket")
	flag.Int64Var(&o.bytes, "bytes", 512<<20, "how much is read back, and recovered")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "where the stores put their data")
	flag.StringVar(&o.output, "output", "", "Markdown file whose table between the bench:streams markers is replaced")
	flag.Parse()
	o.command = fmt.Sprintf("bench/streams.sh -stores %s -phase %v -lone %d -bytes %d", o.stores, o.phase, o.lone, o.bytes)
	if o.only != "" {
		o.command += " -only " + o.only
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures every store and writes the tables.
func run(ctx context.Context, o options) error {
	report := newReport(o.command)
	for _, kind := range strings.Split(o.stores, ",") {
		if err := measure(ctx, o, kind, report); err != nil {
			return fmt.Errorf("streams: %s: %w", kind, err)
		}
	}
	text := report.markdown()
	fmt.Printf("\n%s", text)
	if o.output == "" {
		return nil
	}
	return replaceSection(o.output, text)
}

// measure runs every measurement on one store.
func measure(ctx context.Context, o options, kind string, r *report) error {
	dir, err := os.MkdirTemp(o.dir, "tidemark-streams-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := startBucket(ctx, kind, dir)
	if err != nil {
		return err
	}
	defer b.stop()
	for _, m := range []struct {
		name string
		run  func(context.Context, options, *bucket, *report) error
	}{
		{"lone", measureLone}, {"load", measureLoad}, {"tail", measureTail}, {"scan", measureScan}, {"recovery", measureRecovery},
		{"memory", measureMemory},
	} {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), m.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", kind, m.name)
		if err := m.run(ctx, o, b, r); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}
