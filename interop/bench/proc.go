package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTicks is the kernel's USER_HZ, 100 on every Linux that Go runs on: the unit of processor time in /proc.
const clockTicks = 100

// processTime returns the processor time, user and system, that a process has used with all its threads.
func processTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return parseStat(string(text))
}

// ownTime is [processTime] of this program.
func ownTime() (time.Duration, error) { return processTime(os.Getpid()) }

func parseStat(stat string) (time.Duration, error) {
	// pid (name) state ppid ...: the name may hold anything, so fields count from the last parenthesis. utime and stime are
	// fields 14 and 15 of the whole, 12 and 13 of what follows the name.
	const utime, stime = 11, 12
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0, fmt.Errorf("bench: /proc/PID/stat has %d fields after the name: %q", len(fields), stat)
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bench: utime: %w", err)
	}
	system, err := strconv.ParseInt(fields[stime], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bench: stime: %w", err)
	}
	return time.Duration(user+system) * time.Second / clockTicks, nil
}

// forgetPeak makes [peakMemory] begin anew with what the process has now.
func forgetPeak(pid int) error {
	const residentPeak = "5" // of what /proc/PID/clear_refs can reset
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(residentPeak), 0); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// peakMemory returns the most resident memory that a process has had since [forgetPeak], or ever, in bytes.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return parsePeak(string(text))
}

func parsePeak(status string) (int64, error) {
	kib, err := statusField(status, "VmHWM")
	return kib << 10, err
}

// statusField returns a number of /proc/PID/status, without its unit.
func statusField(status, name string) (int64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("bench: %s: %w", name, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("bench: /proc/PID/status has no %s", name)
}

// process is what /proc says of a process at a moment.
type process struct {
	resident    int64 // bytes
	descriptors int
	threads     int
	switches    int64 // how often its threads have gone to sleep by themselves, which is how often they were woken
	processor   time.Duration
}

func look(pid int) (process, error) {
	var p process
	dir := fmt.Sprintf("/proc/%d", pid)
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return p, fmt.Errorf("bench: %w", err)
	}
	kib, err := statusField(string(status), "VmRSS")
	if err != nil {
		return p, err
	}
	p.resident = kib << 10
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return p, fmt.Errorf("bench: %w", err)
	}
	p.descriptors = len(open)
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return p, fmt.Errorf("bench: %w", err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(filepath.Join(dir, "task", thread.Name(), "status"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return p, fmt.Errorf("bench: %w", err)
		}
		n, err := statusField(string(status), "voluntary_ctxt_switches")
		if err != nil {
			return p, err
		}
		p.threads++
		p.switches += n
	}
	p.processor, err = processTime(pid)
	return p, err
}
