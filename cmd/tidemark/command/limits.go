package command

import (
	"bufio"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-io/tidemark/config"
)

// limits are what the process may use, derived from the configuration and the machine.
type limits struct {
	memory       int64 // bytes, limit of the Go runtime; 0 for no limit
	openFiles    int   // files kept open that are not being written; 0 for node's default
	connections  int   // open at once; 0: no limit
	requestBytes int64 // memory of requests in progress; 0 for the broker's default
}

// Shares of the available resources.
const (
	memoryShare      = 0.9     // of a container's memory: the rest is for memory that Go's runtime does not count
	requestShare     = 4       // one part in this many of the memory limit is for requests
	maxRequestShare  = 1 << 30 // and no more than this
	openFilesShare   = 2       // one in this many descriptors is for files that are not being written
	connectionsShare = 4       // and one in this many for connections; the rest is for files that are being written
	maxOpenFiles     = 16384   // more are of no use
	goMemoryVariable = "GOMEMLIMIT"
)

// decideLimits derives what the configuration leaves to the machine. container is the memory that a control group allows,
// goLimit the value of GOMEMLIMIT, and descriptors how many the process may have; 0 is no limit or unknown.
func decideLimits(s config.Server, container, goLimit, descriptors int64) limits {
	l := limits{
		memory: s.MemoryLimit, openFiles: int(s.MaxOpenFiles), connections: unlimited(s.MaxConnections),
		requestBytes: s.QueuedMaxRequestBytes,
	}
	switch {
	case goLimit > 0:
		l.memory = goLimit
	case l.memory == 0:
		l.memory = int64(float64(container) * memoryShare)
	}
	if l.openFiles == 0 {
		l.openFiles = int(min(descriptors/openFilesShare, maxOpenFiles))
	}
	if l.connections == 0 {
		l.connections = int(descriptors / connectionsShare) // idle clients must not keep a log from opening its next segment
	}
	if l.requestBytes < 0 {
		l.requestBytes = 0
		if l.memory > 0 {
			l.requestBytes = max(min(l.memory/requestShare, maxRequestShare), 2*s.SocketRequestMaxBytes)
		}
	}
	return l
}

// machineLimits calls decideLimits for this process.
func machineLimits(s config.Server) limits {
	return decideLimits(s, containerMemory(os.DirFS("/")), goMemoryLimit(), descriptorLimit())
}

// apply sets the Go runtime's memory limit, unless GOMEMLIMIT has done so, and logs the limits.
func (l limits) apply(s config.Server, logger *slog.Logger) {
	if goLimit := goMemoryLimit(); goLimit == 0 && l.memory > 0 {
		debug.SetMemoryLimit(l.memory)
	} else if goLimit > 0 && s.MemoryLimit > 0 && s.MemoryLimit != goLimit {
		logger.Warn("memory-limit has no effect: GOMEMLIMIT is set and stronger", "GOMEMLIMIT", goLimit)
	}
	logger.Info("limits", "memory", l.memory, "open files", l.openFiles, "connections", l.connections,
		"request bytes", l.requestBytes)
}

// goMemoryLimit returns the value of GOMEMLIMIT, 0 without one.
func goMemoryLimit() int64 {
	if os.Getenv(goMemoryVariable) == "" {
		return 0
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	return 0
}

// descriptorLimit returns how many descriptors the process may have, 0 if unknown. Go has raised the soft limit to the
// hard one.
func descriptorLimit() int64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return int64(min(r.Cur, math.MaxInt32))
}

// containerMemory returns the smallest memory limit of the control groups of this process, 0 when there is no limit. The
// root of fsys is that of the machine.
func containerMemory(fsys fs.FS) int64 {
	file, err := fsys.Open("proc/self/cgroup")
	if err != nil {
		return 0
	}
	defer file.Close()
	var least int64
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		dir, name, ok := memoryGroup(lines.Text())
		if !ok {
			continue
		}
		for {
			if limit := readLimit(fsys, path.Join(dir, name)); limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if dir == cgroupRoot || dir == cgroupRoot+"/memory" || dir == "." {
				break
			}
			dir = path.Dir(dir)
		}
	}
	return least
}

const cgroupRoot = "sys/fs/cgroup"

// memoryGroup parses a line of /proc/self/cgroup: ID:CONTROLLERS:PATH. It returns the group's directory and the name of
// the file that holds its limit, for version 2 of control groups (0::PATH) and version 1 (N:memory:PATH).
func memoryGroup(line string) (dir, file string, ok bool) {
	fields := strings.SplitN(line, ":", 3)
	if len(fields) != 3 {
		return "", "", false
	}
	if fields[0] == "0" && fields[1] == "" {
		return path.Join(cgroupRoot, fields[2]), "memory.max", true
	}
	for controller := range strings.SplitSeq(fields[1], ",") {
		if controller == "memory" {
			return path.Join(cgroupRoot, "memory", fields[2]), "memory.limit_in_bytes", true
		}
	}
	return "", "", false
}

// readLimit reads a file that holds a number of bytes, or max. Version 1 writes a number near 2^63 for no limit.
func readLimit(fsys fs.FS, name string) int64 {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit > math.MaxInt64/2 {
		return 0
	}
	return limit
}
