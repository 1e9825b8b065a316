package main

import (
	"fmt"
	"os"
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

// peakMemory returns the most resident memory that a process ever had, in bytes.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return parsePeak(string(text))
}

func parsePeak(status string) (int64, error) {
	for _, line := range strings.Split(status, "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("bench: VmHWM: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("bench: /proc/PID/status has no VmHWM")
}
