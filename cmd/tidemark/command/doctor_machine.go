package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// examineData checks the data directory, or where it would be created.
func examineData(dir string) []finding {
	where, err := existing(dir)
	if err != nil {
		return []finding{fail("data directory", "%v", err)}
	}
	writable := probeDir(where)
	if where != dir && writable.Status == statusOK {
		writable.Detail = fmt.Sprintf("%s does not exist yet; it can be created in %s", dir, where)
	}
	found := []finding{writable}
	if where == dir {
		found = append(found, examineQuarantine(dir))
	}
	return append(found, examineFileSystem(where)...)
}

// existing returns the directory itself, or its nearest existing ancestor.
func existing(dir string) (string, error) {
	where, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(where)
		switch {
		case err == nil && info.IsDir():
			if abs, _ := filepath.Abs(dir); abs == where {
				return dir, nil
			}
			return where, nil
		case err == nil:
			return "", fmt.Errorf("%s is not a directory", where)
		case !errors.Is(err, fs.ErrNotExist) || where == filepath.Dir(where):
			return "", err
		}
		where = filepath.Dir(where)
	}
}

// probeSyncs is how many small writes are synced to measure the latency, and probeWrite the size of each.
const (
	probeSyncs = 16
	probeWrite = 4096
	slowSync   = 50 * time.Millisecond
)

// probeDir writes, syncs and removes a small file.
func probeDir(dir string) finding {
	const check = "data directory"
	f, err := os.CreateTemp(dir, ".tidemark-doctor-")
	if err != nil {
		return fail(check, "%s cannot be written: %v", dir, err)
	}
	took, err := timeSyncs(f)
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return fail(check, "%s: %v", dir, err)
	}
	median, worst := took[len(took)/2], took[len(took)-1]
	detail := fmt.Sprintf("%s is writable; syncing a small write takes %s, the slowest of %d took %s", dir,
		median.Round(time.Microsecond), probeSyncs, worst.Round(time.Microsecond))
	if median > slowSync {
		return warn(check, "%s; every acknowledgement waits that long", detail)
	}
	return okay(check, "%s", detail)
}

// timeSyncs returns how long writes and their syncs took, the fastest first.
func timeSyncs(f *os.File) ([]time.Duration, error) {
	var took []time.Duration
	block := make([]byte, probeWrite)
	for range probeSyncs {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return make([]time.Duration, probeSyncs), err
		}
		if err := f.Sync(); err != nil {
			return make([]time.Duration, probeSyncs), err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, nil
}

// fileSystem is a known kind of file system.
type fileSystem struct {
	name  string
	doubt string // why it is unsuitable, or ""
}

// fileSystems are keyed by the magic numbers of statfs(2).
var fileSystems = map[int64]fileSystem{
	0xEF53:     {"ext4", ""},
	0x58465342: {"xfs", ""},
	0x9123683E: {"btrfs", "turn copy-on-write off for the directory (chattr +C): logs are appended to"},
	0x2FC12FC1: {"zfs", ""},
	0xF2F52010: {"f2fs", ""},
	0x01021994: {"tmpfs", "it is memory: everything is lost when the machine restarts"},
	0x858458F6: {"ramfs", "it is memory: everything is lost when the machine restarts"},
	0x794C7630: {"overlayfs", "it is a container's own layer: everything is lost with the container; mount a volume"},
	0x6969:     {"nfs", "a network file system may lose locks and synced data"},
	0xFF534D42: {"cifs", "a network file system may lose locks and synced data"},
	0xFE534D42: {"smb2", "a network file system may lose locks and synced data"},
	0x65735546: {"fuse", "what a sync guarantees is up to the program behind it"},
	0x01021997: {"9p", "what a sync guarantees is up to the host"},
}

// Thresholds for little free space.
const (
	littleSpace   = 1 << 30
	tooLittle     = 64 << 20
	littlePercent = 5
)

// examineFileSystem reports the file system of a directory and its free space.
func examineFileSystem(dir string) []finding {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return []finding{fail("file system", "%s: %v", dir, err)}
	}
	kind, known := fileSystems[int64(uint32(s.Type))]
	system := okay("file system", "%s", kind.name)
	switch {
	case !known:
		system = warn("file system", "unknown (type 0x%X)", uint32(s.Type))
	case kind.doubt != "":
		system = warn("file system", "%s: %s", kind.name, kind.doubt)
	}
	block := int64(s.Bsize)
	space := judgeSpace(int64(s.Bavail)*block, int64(s.Blocks)*block)
	if s.Files > 0 && s.Ffree*100 < s.Files*littlePercent {
		return []finding{system, space, warn("free inodes", "%s of %s", count(s.Ffree), count(s.Files))}
	}
	return []finding{system, space}
}

func judgeSpace(free, total int64) finding {
	const check = "free space"
	detail := fmt.Sprintf("%s of %s", size(free), size(total))
	switch {
	case free < tooLittle:
		return fail(check, "%s: produce will be refused", detail)
	case free < littleSpace || free/100*100 < total/100*littlePercent:
		return warn(check, "%s", detail)
	}
	return okay(check, "%s", detail)
}

// fewDescriptors is less than a server with many partitions and clients needs.
const fewDescriptors = 10_000

func examineDescriptors(limit int64) finding {
	const check = "descriptors"
	switch {
	case limit == 0:
		return warn(check, "the limit cannot be read")
	case limit < fewDescriptors:
		return warn(check, "at most %s open (ulimit -n, LimitNOFILE): few for many partitions and clients", count(limit))
	}
	return okay(check, "at most %s open", count(limit))
}

func examineMemory(l limits) finding {
	if l.memory == 0 {
		return okay("memory", "no limit")
	}
	return okay("memory", "limited to %s", size(l.memory))
}

// Limits within which a clock is plausible.
const (
	earliestYear = 2026
	latestYear   = 2100
	clockSkew    = 5 * time.Second // between this machine's clock and its file system's
)

// examineClock checks the clock for plausibility, against the file system's, and whether it is synchronized.
func examineClock(dir string, now time.Time) []finding {
	const check = "clock"
	if year := now.Year(); year < earliestYear || year > latestYear {
		return []finding{fail(check, "%s cannot be right: retention goes by it", now.UTC().Format(time.RFC3339))}
	}
	findings := []finding{synchronized(now)}
	where, err := existing(dir)
	if err != nil {
		return findings
	}
	if stamp, err := fileStamp(where); err == nil {
		if skew := time.Until(stamp).Abs(); skew > clockSkew {
			findings = append(findings, warn("file times", "differ from the clock by %s", skew.Round(time.Second)))
		}
	}
	return findings
}

// fileStamp is the time that the file system gives a new file.
func fileStamp(dir string) (time.Time, error) {
	f, err := os.CreateTemp(dir, ".tidemark-doctor-")
	if err != nil {
		return time.Time{}, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// wildcard reports whether a host stands for all addresses.
func wildcard(host string) bool {
	return host == "" || host == "0.0.0.0" || strings.Trim(host, "[]") == "::"
}
