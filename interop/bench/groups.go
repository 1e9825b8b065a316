package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/server"
)

// groupOptions are the flags of `bench groups`.
type groupOptions struct {
	partitions int           // in all; each group has a topic with its share of them
	groups     int           // how many
	settle     time.Duration // from the end of a step to its measurement
	idle       time.Duration // how long each measurement lasts
	dir        string        // where the server puts its data
	output     string        // the file whose table is replaced; empty prints it only
	command    string        // how this run was started, for the table's caption
}

func groupsMain(ctx context.Context, args []string) error {
	var o groupOptions
	flags := flag.NewFlagSet("bench groups", flag.ExitOnError)
	flags.IntVar(&o.partitions, "partitions", 5000, "partitions in all")
	flags.IntVar(&o.groups, "groups", 500, "groups, each with a topic of its own")
	flags.DurationVar(&o.settle, "settle", 15*time.Second, "from the end of a step to its measurement")
	flags.DurationVar(&o.idle, "idle", 30*time.Second, "how long each measurement lasts")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "where the server puts its data")
	flags.StringVar(&o.output, "output", "", "Markdown file whose table between the bench:groups markers is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.groups < 1 || o.partitions < o.groups {
		return fmt.Errorf("bench: groups: wants at least one group, a partition for each, and no other argument")
	}
	o.command = fmt.Sprintf("bench/groups.sh -partitions %d -groups %d -settle %v -idle %v", o.partitions, o.groups, o.settle, o.idle)
	table, err := measureGroups(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s", table)
	if o.output == "" {
		return nil
	}
	return replaceSection(o.output, "groups", table)
}

// rest is what a server at rest holds and does.
type rest struct {
	state       string
	resident    int64
	descriptors int
	threads     int
	wakeUps     float64 // each second, of all threads
	processor   float64 // milliseconds each second
}

// measureGroups starts a server, fills it step by step, measures it at rest after each, and returns the table.
func measureGroups(ctx context.Context, o groupOptions) (string, error) {
	dir, err := os.MkdirTemp(o.dir, "tidemark-bench-")
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	install, err := server.Located()
	if err != nil {
		return "", err
	}
	binary, err := server.BuildTidemark(install, dir)
	if err != nil {
		return "", err
	}
	data, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	s, err := server.NewTidemark(server.TidemarkOptions{Dir: data, Binary: binary, Args: []string{"--max-partitions", "0"}})
	if err != nil {
		return "", err
	}
	if err := s.Start(ctx); err != nil {
		return "", err
	}
	defer s.Kill()
	f := &groupFill{groupOptions: o, addr: s.Addr()}
	defer f.close()

	var rows []rest
	for _, step := range []struct {
		state string
		do    func(context.Context) error
	}{
		{"just started", func(context.Context) error { return nil }},
		{fmt.Sprintf("%s partitions, a record in each", thousands(float64(f.perGroup()*o.groups))), f.topics},
		{fmt.Sprintf("and %s groups with committed offsets", thousands(float64(o.groups))), f.commits},
		{"and a connected member in each group", f.members},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return "", fmt.Errorf("bench: %s: %w", step.state, err)
		}
		fmt.Printf("%-40s %8v\n", step.state, time.Since(began).Round(time.Millisecond))
		r, err := atRest(ctx, s.PID(), step.state, o.settle, o.idle)
		if err != nil {
			return "", err
		}
		rows = append(rows, r)
	}
	return groupTable(o, rows), nil
}

// groupFill makes topics, groups and members.
type groupFill struct {
	groupOptions
	addr    string
	clients []*kgo.Client
}

func (f *groupFill) perGroup() int { return f.partitions / f.groups }

func (f *groupFill) name(group int) string { return fmt.Sprintf("group-%04d", group) }

// client returns a client that close closes.
func (f *groupFill) client(opts ...kgo.Opt) (*kgo.Client, error) {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.addr)}, opts...)...)
	if err == nil {
		f.clients = append(f.clients, c)
	}
	return c, err
}

// close ends the clients without contacting the server.
func (f *groupFill) close() {
	for _, c := range f.clients {
		c.Close()
	}
}

// topics creates a topic for each group and writes a record to every partition.
func (f *groupFill) topics(ctx context.Context) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer c.Close()
	const atOnce = 50
	for first := 0; first < f.groups; first += atOnce {
		var names []string
		var records []*kgo.Record
		for group := first; group < min(first+atOnce, f.groups); group++ {
			names = append(names, f.name(group))
			for p := range f.perGroup() {
				records = append(records, &kgo.Record{Topic: f.name(group), Partition: int32(p), Value: []byte("one record")})
			}
		}
		created, err := kadm.NewClient(c).CreateTopics(ctx, int32(f.perGroup()), 1, nil, names...)
		if err != nil {
			return err
		}
		if err := created.Error(); err != nil {
			return err
		}
		if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// commits commits the end of every partition for its group.
func (f *groupFill) commits(ctx context.Context) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(f.addr))
	if err != nil {
		return err
	}
	defer c.Close()
	for group := range f.groups {
		offsets := kadm.Offsets{}
		for p := range f.perGroup() {
			offsets.AddOffset(f.name(group), int32(p), 1, -1)
		}
		if err := kadm.NewClient(c).CommitAllOffsets(ctx, f.name(group), offsets); err != nil {
			return err
		}
	}
	return nil
}

// members connects a member to every group and waits until each owns its partitions.
func (f *groupFill) members(ctx context.Context) error {
	assigned := make(chan int, f.groups)
	for group := range f.groups {
		_, err := f.client(kgo.ConsumerGroup(f.name(group)), kgo.ConsumeTopics(f.name(group)),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, owned map[string][]int32) {
				assigned <- len(owned[f.name(group)])
			}))
		if err != nil {
			return err
		}
	}
	for range f.groups {
		select {
		case n := <-assigned:
			if n != f.perGroup() {
				return fmt.Errorf("a member was assigned %d partitions, not %d", n, f.perGroup())
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// atRest measures a server without requests.
func atRest(ctx context.Context, pid int, state string, settle, idle time.Duration) (rest, error) {
	if err := pause(ctx, settle); err != nil {
		return rest{}, err
	}
	before, err := look(pid)
	if err != nil {
		return rest{}, err
	}
	began := time.Now()
	if err := pause(ctx, idle); err != nil {
		return rest{}, err
	}
	after, err := look(pid)
	if err != nil {
		return rest{}, err
	}
	seconds := time.Since(began).Seconds()
	return rest{
		state: state, resident: after.resident, descriptors: after.descriptors, threads: after.threads,
		wakeUps:   float64(after.switches-before.switches) / seconds,
		processor: float64((after.processor - before.processor).Milliseconds()) / seconds,
	}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func groupTable(o groupOptions, rows []rest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", machine())
	fmt.Fprintf(&b, "`%s`: each line is the same server some steps further, %v after the last request, over %v.\n\n",
		o.command, o.settle, o.idle)
	b.WriteString("| state | resident memory, MiB | descriptors | threads | wake-ups/s | processor, ms/s |\n|---|---:|---:|---:|---:|---:|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %s | %d | %.1f | %.1f |\n", r.state, r.resident>>20, thousands(float64(r.descriptors)),
			r.threads, r.wakeUps, r.processor)
	}
	return b.String()
}
