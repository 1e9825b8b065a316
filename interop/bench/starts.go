package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/interop/server"
)

// The partitions of a start: this many topics with this many partitions each.
const (
	startTopics     = 50
	startPartitions = 100
)

// start is how long the starts and stops of one server took, and what it held in between.
type start struct {
	empty     time.Duration // from nothing to the first answer
	created   time.Duration // from the request to the last directory
	memory    int64         // resident bytes with all partitions, a record in each, at rest
	processor float64       // milliseconds each second, at rest
	clean     time.Duration // to every partition served, after a clean stop
	unclean   time.Duration // the same after kill -9
}

// startsOf are all rounds of one kind of server.
type startsOf struct {
	kind, title string
	rounds      []start
}

// starts measures each kind of server that many times, and returns the table. Kafka, which takes minutes, is measured at
// most twice. Each run's files stay in dir: ext4 reuses no inode within minutes of its deletion, and probes them one
// after the other, so deleting the files would slow down whoever creates files next.
func starts(ctx context.Context, kinds []startsOf, rounds int, dir string) (string, error) {
	binary, err := tidemarkBinary(dir)
	if err != nil {
		return "", err
	}
	for round := range rounds {
		for i := range kinds {
			k := &kinds[i]
			if k.kind == "kafka" && round >= 2 {
				continue
			}
			data, err := os.MkdirTemp(dir, "life-")
			if err != nil {
				return "", fmt.Errorf("bench: %w", err)
			}
			s, err := measureStart(ctx, k.kind, binary, data)
			if err != nil {
				return "", fmt.Errorf("bench: %s: %w", k.title, err)
			}
			fmt.Printf("round %d  %-12s %+v\n", round+1, k.kind, s)
			k.rounds = append(k.rounds, s)
		}
	}
	return startTable(kinds), nil
}

func startTable(kinds []startsOf) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Start and stop. With %s partitions, in %d topics created by one request, a record in each.\n\n",
		thousands(startTopics*startPartitions), startTopics)
	b.WriteString("| |")
	for _, k := range kinds {
		fmt.Fprintf(&b, " %s |", k.title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(kinds)) + "\n")
	seconds := func(d time.Duration) float64 { return d.Seconds() }
	for _, row := range []struct {
		title, format string
		of            func(start) float64
	}{
		{"from nothing to the first answer, s", "%.3f", func(s start) float64 { return seconds(s.empty) }},
		{"partitions created, directories and all, s", "%.2f", func(s start) float64 { return seconds(s.created) }},
		{"resident memory at rest, MiB", "%.0f", func(s start) float64 { return float64(s.memory) / (1 << 20) }},
		{"processor at rest, % of a core", "%.2f", func(s start) float64 { return s.processor / 10 }},
		{"ready again after a stop in order, s", "%.2f", func(s start) float64 { return seconds(s.clean) }},
		{"ready again after kill -9, s", "%.2f", func(s start) float64 { return seconds(s.unclean) }},
	} {
		fmt.Fprintf(&b, "| %s |", row.title)
		for _, k := range kinds {
			fmt.Fprintf(&b, " %s |", spreadOf(k.rounds, row.of).format(row.format))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// measureStart takes one server through its life.
func measureStart(ctx context.Context, kind, binary, dir string) (r start, err error) {
	s, err := newServer(kind, binary, filepath.Join(dir, "data"))
	if err != nil {
		return r, err
	}
	defer s.Kill()
	if r.empty, err = launch(ctx, s, firstAnswer); err != nil {
		return r, err
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return r, err
	}
	defer c.Close()
	if r.created, err = createMany(ctx, c, s.DataDir()); err != nil {
		return r, err
	}
	if err := writeMany(ctx, c); err != nil {
		return r, err
	}
	idle, err := atRest(ctx, s.PID(), "", 5*time.Second, 5*time.Second)
	if err != nil {
		return r, err
	}
	r.memory, r.processor = idle.resident, idle.processor
	if err := s.Stop(ctx); err != nil {
		return r, err
	}
	if r.clean, err = launch(ctx, s, allServed); err != nil {
		return r, err
	}
	if err := writeMany(ctx, c); err != nil {
		return r, err
	}
	if err := s.Kill(); err != nil {
		return r, err
	}
	r.unclean, err = launch(ctx, s, allServed)
	return r, err
}

// launch starts a server and returns how long it took until ready.
func launch(ctx context.Context, s *server.Server, ready func(ctx context.Context, addr string) error) (time.Duration, error) {
	began := time.Now()
	if err := s.Launch(); err != nil {
		return 0, err
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	err := ready(limited, s.Addr())
	return time.Since(began), err
}

func startNames() []string {
	var names []string
	for i := range startTopics {
		names = append(names, fmt.Sprintf("start-%02d", i))
	}
	return names
}

// allServed waits until every partition reports its log end.
func allServed(ctx context.Context, addr string) error {
	if err := firstAnswer(ctx, addr); err != nil {
		return err
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		ends, err := kadm.NewClient(c).ListEndOffsets(ctx, startNames()...)
		if err == nil {
			err = ends.Error()
		}
		served := 0
		ends.Each(func(kadm.ListedOffset) { served++ })
		if err == nil && served == startTopics*startPartitions {
			return nil
		}
		if pauseErr := pause(ctx, 10*time.Millisecond); pauseErr != nil {
			return fmt.Errorf("%d of %d partitions are served: %w", served, startTopics*startPartitions, pauseErr)
		}
	}
}

// createMany creates the topics and waits until each partition has a directory.
func createMany(ctx context.Context, c *kgo.Client, dir string) (time.Duration, error) {
	began := time.Now()
	created, err := kadm.NewClient(c).CreateTopics(ctx, startPartitions, 1, nil, startNames()...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return 0, err
	}
	for {
		n, err := directories(dir)
		if err != nil {
			return 0, err
		}
		if n >= startTopics*startPartitions {
			return time.Since(began), nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// directories counts the directories of the topics' partitions below dir.
func directories(dir string) (n int, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil // one that is just being moved
		}
		if strings.HasPrefix(e.Name(), "start-") {
			n++
			return fs.SkipDir
		}
		return nil
	})
	return n, err
}

// writeMany writes a record to every partition.
func writeMany(ctx context.Context, c *kgo.Client) error {
	var records []*kgo.Record
	for _, name := range startNames() {
		for p := range int32(startPartitions) {
			records = append(records, &kgo.Record{Topic: name, Partition: p, Value: []byte("one record")})
		}
	}
	return c.ProduceSync(ctx, records...).FirstErr()
}
