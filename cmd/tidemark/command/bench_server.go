package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// serverUse is what the server used during a measurement.
type serverUse struct {
	Process      int     `json:"pid,omitempty"` // 0 if it was observed through its metrics
	CPU          float64 `json:"cpu_seconds"`
	CPUPerRecord float64 `json:"cpu_microseconds_per_record"`
	PeakMemory   int64   `json:"peak_memory_bytes"` // resident, of the measurement
}

// sampleEvery is how often memory is sampled.
const sampleEvery = 100 * time.Millisecond

// usage is a process's CPU seconds so far and its resident bytes now.
type usage struct {
	cpu    float64
	memory int64
}

// serverWatch samples a server's process until it is stopped. A nil one samples nothing.
type serverWatch struct {
	process int
	read    func() (usage, error)
	first   usage
	peak    int64
	end     context.CancelFunc
	done    sync.WaitGroup
}

// watchServer starts observing the server: through its metrics if a URL is given, or else the process that listens at the
// first address, if that is on this machine and visible.
func watchServer(servers []string, metrics string) *serverWatch {
	w := &serverWatch{}
	if metrics != "" {
		w.read = func() (usage, error) { return readMetrics(metrics) }
	} else {
		machine := os.DirFS("/")
		w.process = listenerAt(machine, servers[0])
		if w.process == 0 || w.process == os.Getpid() {
			return nil
		}
		w.read = func() (usage, error) { return readProcess(machine, w.process) }
	}
	var err error
	if w.first, err = w.read(); err != nil {
		return nil
	}
	w.peak = w.first.memory
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	w.done.Go(func() { w.sample(ctx) })
	return w
}

func (w *serverWatch) sample(ctx context.Context) {
	ticks := time.NewTicker(sampleEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if now, err := w.read(); err == nil {
				w.peak = max(w.peak, now.memory)
			}
		}
	}
}

// stop ends the sampling and returns the result, or nil if nothing was observed.
func (w *serverWatch) stop() *serverUse {
	if w == nil {
		return nil
	}
	w.end()
	w.done.Wait()
	last, err := w.read()
	if err != nil {
		return nil
	}
	return &serverUse{Process: w.process, CPU: last.cpu - w.first.cpu, PeakMemory: max(w.peak, last.memory)}
}

// ownCPU returns the CPU seconds of this process so far.
func ownCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

// listenerAt finds the process that listens at an address of this machine, or returns 0 if none is visible. The root of
// fsys is that of the machine.
func listenerAt(fsys fs.FS, address string) int {
	host, port, err := net.SplitHostPort(address)
	number, _ := strconv.ParseUint(port, 10, 16)
	ip := net.ParseIP(host)
	if err != nil || number == 0 || (host != "localhost" && (ip == nil || !ip.IsLoopback())) {
		return 0
	}
	inodes := map[string]bool{}
	for _, table := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		if text, err := fs.ReadFile(fsys, table); err == nil {
			addListeners(inodes, text, number)
		}
	}
	if len(inodes) == 0 {
		return 0
	}
	processes, _ := fs.ReadDir(fsys, "proc") // none is the same as none visible
	for _, p := range processes {
		id, err := strconv.Atoi(p.Name())
		if err == nil && holdsSocket(fsys, path.Join("proc", p.Name(), "fd"), inodes) {
			return id
		}
	}
	return 0
}

// addListeners collects the sockets that listen on a port, from a table of the kernel:
//
//	sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
//	0: 0100007F:2384 00000000:0000 0A ...
func addListeners(inodes map[string]bool, text []byte, port uint64) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != "0A" {
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil && n == port {
			inodes["socket:["+fields[9]+"]"] = true
		}
	}
}

func holdsSocket(fsys fs.FS, dir string, inodes map[string]bool) bool {
	descriptors, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return false // it has ended, or belongs to another user
	}
	for _, d := range descriptors {
		if target, err := fs.ReadLink(fsys, path.Join(dir, d.Name())); err == nil && inodes[target] {
			return true
		}
	}
	return false
}

// ticksPerSecond is the unit of CPU time that Linux shows to programs, on every architecture.
const ticksPerSecond = 100

// readProcess reads the usage of a process.
func readProcess(fsys fs.FS, process int) (usage, error) {
	dir := path.Join("proc", strconv.Itoa(process))
	stat, err := fs.ReadFile(fsys, path.Join(dir, "stat"))
	if err != nil {
		return usage{}, err
	}
	// The second field is the program's name in brackets, which may hold anything; 12 and 13 after it are the ticks.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return usage{}, errors.New("proc stat is too short")
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	system, failed := strconv.ParseFloat(fields[12], 64)
	if err = errors.Join(err, failed); err != nil {
		return usage{}, err
	}
	u := usage{cpu: (user + system) / ticksPerSecond}
	status, err := fs.ReadFile(fsys, path.Join(dir, "status"))
	if err != nil {
		return usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			u.memory = kilobytes << 10
			return u, err
		}
	}
	return usage{}, errors.New("proc status has no VmRSS")
}

// readMetrics reads the usage of a process from its metrics, under the names that Prometheus clients use.
func readMetrics(url string) (usage, error) {
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		return usage{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return usage{}, fmt.Errorf("%s: %s", url, resp.Status)
	}
	var u usage
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		switch name {
		case "process_cpu_seconds_total":
			u.cpu = value
		case "process_resident_memory_bytes":
			u.memory = int64(value)
		}
	}
	return u, lines.Err()
}
