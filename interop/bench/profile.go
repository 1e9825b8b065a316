package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// profileOptions are the flags of `bench profile`.
type profileOptions struct {
	partitions int
	phase      time.Duration
	warm       time.Duration
	dir        string
	output     string
	command    string // how this run was started, for the table's caption
}

func profileMain(ctx context.Context, args []string) error {
	var o profileOptions
	flags := flag.NewFlagSet("bench profile", flag.ExitOnError)
	flags.IntVar(&o.partitions, "partitions", 12, "partitions of the topics")
	flags.DurationVar(&o.phase, "phase", 8*time.Second, "how long each workload is profiled")
	flags.DurationVar(&o.warm, "warm", 10*time.Second, "load before the first profile")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "where the server puts its data")
	flags.StringVar(&o.output, "output", "", "Markdown file whose table between the bench:profile markers is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("bench: profile: unexpected argument %q", flags.Arg(0))
	}
	o.command = fmt.Sprintf("bench/profile.sh -partitions %d -phase %v -warm %v", o.partitions, o.phase, o.warm)
	columns, err := profileServer(ctx, o)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s\n\n`%s`.\n\n%s", machine(), o.command, profileTable(columns))
	fmt.Printf("\n%s", text)
	if o.output == "" {
		return nil
	}
	return replaceSection(o.output, "profile", text)
}

// profileServer profiles a server while each workload is produced to it, while it is consumed from, and at rest.
func profileServer(ctx context.Context, o profileOptions) (columns []profile, err error) {
	dir, err := os.MkdirTemp(o.dir, "tidemark-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	variants, stop, err := startVariants(ctx, []string{"tidemark"}, dir)
	defer stop()
	if err != nil {
		return nil, err
	}
	v := variants[0]
	if err := warm(ctx, v, o.warm); err != nil {
		return nil, err
	}
	samples := filepath.Join(dir, "perf.data")
	profiled := func(title string, f func() (int64, error)) (records int64, err error) {
		stop, err := recordStacks(ctx, v.pid, samples)
		if err != nil {
			return 0, err
		}
		p, err := clocked(v, f)
		if err := errors.Join(err, stop()); err != nil {
			return 0, err
		}
		column := profile{title: title, perRecord: p.cpuPerRecord()}
		if err := column.read(ctx, samples); err != nil {
			return 0, err
		}
		columns = append(columns, column)
		return p.records, nil
	}
	for _, w := range workloads {
		topic := "profile-" + w.slug
		if err := createTopic(ctx, v, topic, o.partitions); err != nil {
			return nil, err
		}
		syscall.Sync()
		records, err := profiled("produce, "+w.name, func() (int64, error) { return produce(ctx, v, w, topic, o.phase) })
		if err != nil {
			return nil, err
		}
		if w.slug == workloads[0].slug {
			syscall.Sync()
			_, err = profiled("consume, "+w.name, func() (int64, error) { return consumeAgain(ctx, v, topic, records, o.phase) })
			if err != nil {
				return nil, err
			}
		}
		if err := deleteTopic(ctx, v, topic); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// recordStacks samples the stacks of a process with perf(1), a thousand times a second of its processor time, until stop
// is called.
func recordStacks(ctx context.Context, pid int, file string) (stop func() error, err error) {
	perf := exec.CommandContext(ctx, "perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-p", fmt.Sprint(pid), "-o", file)
	perf.Stderr = os.Stderr
	if err := perf.Start(); err != nil {
		return nil, fmt.Errorf("bench: a profile needs perf(1): %w", err)
	}
	return func() error {
		if err := perf.Process.Signal(os.Interrupt); err != nil {
			return fmt.Errorf("bench: perf: %w", err)
		}
		err := perf.Wait()
		if status := (*exec.ExitError)(nil); errors.As(err, &status) && status.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT {
			return nil // it has written the file, and ends as intended
		}
		return err
	}, nil
}

// cause is a use of the server's time: a sample belongs to the first cause that has a frame in its stack.
type cause struct {
	title  string
	frames []string // beginnings of function names
}

var causes = []cause{
	{"copying into the page cache (`pwrite`)", []string{"__x64_sys_pwrite", "__x64_sys_pwritev"}},
	{"sync (`fdatasync`, `sync_file_range`)", []string{"__x64_sys_fdatasync", "__x64_sys_fsync", "__x64_sys_sync_file_range", "__x64_sys_syncfs"}},
	{"`sendfile`", []string{"__x64_sys_sendfile"}},
	{"copying from the socket", []string{"tcp_recvmsg", "__x64_sys_read", "__x64_sys_recv"}},
	{"sending answers", []string{"__x64_sys_write", "__x64_sys_send"}},
	{"page faults of request buffers, and giving them back", []string{"asm_exc_page_fault", "__x64_sys_madvise", "__x64_sys_munmap", "__x64_sys_mmap"}},
	{"garbage collection and allocation", []string{"runtime.gcBgMarkWorker", "runtime.mallocgc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcAssist"}},
	{"checksum (CRC-32C)", []string{"hash/crc32."}},
	{"walking the records, decompression included", []string{"github.com/tidemark-io/tidemark/batch.", "github.com/pierrec/lz4", "github.com/klauspost/compress"}},
	{"scheduler, poller, futexes, the runtime's clock thread", []string{
		"runtime.schedule", "runtime.findRunnable", "runtime.mcall", "runtime.park_m", "runtime.sysmon", "runtime.mstart", "runtime.netpoll",
		"runtime.ready", "runtime.goready", "runtime.futex", "__x64_sys_futex", "__x64_sys_epoll", "__x64_sys_nanosleep",
		"runtime.entersyscall", "runtime.exitsyscall", "runtime.reentersyscall",
	}},
	{"everything else", []string{""}},
}

// profile is how the time of one workload is divided.
type profile struct {
	title     string
	perRecord float64 // the server's microseconds for a record
	samples   int
	of        []int // samples of each cause
}

// read counts the samples in a file of perf by their causes.
func (p *profile) read(ctx context.Context, file string) error {
	script := exec.CommandContext(ctx, "perf", "script", "-i", file, "-F", "ip,sym")
	out, err := script.StdoutPipe()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := script.Start(); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := p.count(out); err != nil {
		return err
	}
	if err := script.Wait(); err != nil {
		return fmt.Errorf("bench: perf script: %w", err)
	}
	if p.samples == 0 {
		return fmt.Errorf("bench: perf saw nothing of %s", p.title)
	}
	return nil
}

// count reads stacks as perf script writes them: a line for each frame, an empty one after each stack.
func (p *profile) count(r io.Reader) error {
	p.of = make([]int, len(causes))
	best := len(causes)
	end := func() {
		if best < len(causes) {
			p.samples++
			p.of[best]++
		}
		best = len(causes)
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 { // no address and name
			end()
			continue
		}
		for i, c := range causes[:best] {
			if c.has(fields[1]) {
				best = i
				break
			}
		}
	}
	end()
	return lines.Err()
}

// has reports whether a function belongs to the cause.
func (c cause) has(function string) bool {
	for _, prefix := range c.frames {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

// profileTable has a column for each profile and a line for each cause.
func profileTable(columns []profile) string {
	var b strings.Builder
	line := func(title string, cell func(profile) string) {
		b.WriteString("| " + title + " |")
		for _, p := range columns {
			b.WriteString(" " + cell(p) + " |")
		}
		b.WriteByte('\n')
	}
	line("", func(p profile) string { return p.title })
	b.WriteString("|---|" + strings.Repeat("---:|", len(columns)) + "\n")
	line("processor time for a record, µs", func(p profile) string { return fmt.Sprintf("%.2f", p.perRecord) })
	for i, c := range causes {
		line(c.title, func(p profile) string {
			share := float64(p.of[i]) / float64(p.samples)
			if share < 0.0005 {
				return ""
			}
			return fmt.Sprintf("%.1f%%", 100*share)
		})
	}
	return b.String()
}
