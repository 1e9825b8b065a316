package node

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/observe"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
)

// The sizes of the reserve and how it is watched, unless [Config] says otherwise.
const (
	defaultReserve = 256 << 20 // bytes,
	reserveShare   = 20        // and at most this fraction of the whole disk
	looksInReserve = 16        // the disk is checked after this fraction of the reserve is written,
	lookInterval   = 2 * time.Second
	lowLook        = time.Second // and this often while it is low
	roomToSpare    = 4           // it stays low until this fraction more than the reserve is free
)

// space reserves the last free bytes of the disk for the metadata log, checkpoints, committed offsets and deletions.
// While less than the reserve is free, producers are refused and no topics are created; nothing else changes.
//
// It needs no timer: appends check the disk from time to time, and only a disk that is low is polled.
type space struct {
	disk    vfs.SpaceReporter // nil if free space is unknown: nothing is reserved
	dir     string
	reserve int64
	now     func() time.Time
	log     *slog.Logger
	metrics observe.Node

	written atomic.Int64                 // since the last check
	looked  atomic.Int64                 // when that was, in ns since 1970
	low     atomic.Pointer[lowDiskError] // nil when there is room
	looking sync.Mutex
	task    *partition.Task
}

// lowDiskError says how much is free. Clients see it too, so it reveals nothing about the server.
type lowDiskError struct{ free, reserve int64 }

func (e *lowDiskError) Error() string {
	return fmt.Sprintf("%d MiB are free on the server's disk, of which the last %d MiB are reserved for metadata and deletion: "+
		"delete topics or records, shorten retention, or add space", e.free>>20, e.reserve>>20)
}

// openSpace checks the disk for the first time.
func (n *Node) openSpace() {
	c := n.config
	s := &space{dir: c.DataDir, reserve: c.DiskReserve, now: c.Now, log: n.log, metrics: n.metrics}
	s.task = n.maintainer.NewTask(s.lookAgain)
	if disk, ok := c.FS.(vfs.SpaceReporter); ok && s.reserve >= 0 {
		if _, total, err := disk.Space(s.dir); err == nil {
			s.disk = disk
			if s.reserve == 0 {
				s.reserve = min(defaultReserve, total/reserveShare)
			}
		}
	}
	if s.disk == nil {
		s.reserve = 0
	}
	n.space = s
	n.show(func(now *shown) { now.space = s })
	observe.Disk(n.reg, s.state)
	n.status.warn(n.warnings)
	s.look()
}

// room returns why that many bytes of records may not be written, or nil. It checks the disk again when much was written
// or much time has passed since the last check.
func (s *space) room(bytes int) error {
	if s.disk == nil {
		return nil
	}
	if low := s.low.Load(); low != nil {
		return low
	}
	much := s.written.Add(int64(bytes)) >= s.reserve/looksInReserve
	if !much && s.now().UnixNano()-s.looked.Load() < int64(lookInterval) {
		return nil
	}
	s.look()
	if low := s.low.Load(); low != nil {
		return low
	}
	return nil
}

// look checks the disk. Concurrent callers use the previous result.
func (s *space) look() {
	if s.disk == nil || !s.looking.TryLock() {
		return
	}
	defer s.looking.Unlock()
	s.written.Store(0)
	s.looked.Store(s.now().UnixNano())
	free, _, err := s.disk.Space(s.dir)
	if err != nil {
		return // writers will get the disk's error
	}
	was := s.low.Load()
	switch {
	case free < s.reserve, was != nil && free < s.reserve+s.reserve/roomToSpare:
		low := &lowDiskError{free: free, reserve: s.reserve}
		s.low.Store(low)
		if was == nil {
			s.metrics.LowDisk.Set(1)
			s.metrics.LowDiskTimes.Inc()
			s.log.Error("producers are refused until there is space again", "dir", s.dir, "reason", low)
			s.task.Due(s.now().Add(lowLook))
		}
	case was != nil:
		s.low.Store(nil)
		s.metrics.LowDisk.Set(0)
		s.log.Info("there is space again: producers are served", "free_bytes", free, "reserve_bytes", s.reserve)
	}
}

// lookAgain polls a disk that is low.
func (s *space) lookAgain(now time.Time) time.Time {
	s.look()
	if s.low.Load() == nil {
		return time.Time{}
	}
	return now.Add(lowLook)
}

// state is for the metrics.
func (s *space) state() observe.DiskState {
	state := observe.DiskState{Reserve: s.reserve}
	if s.disk != nil {
		if free, total, err := s.disk.Space(s.dir); err == nil {
			state.Free, state.Total = free, total
		}
	}
	return state
}

// warnings is for the readiness.
func (s *space) warnings() []string {
	if low := s.low.Load(); low != nil {
		return []string{"producers are refused: " + low.Error()}
	}
	return nil
}
