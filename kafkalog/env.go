package kafkalog

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-io/tidemark/vfs"
)

// EnvOptions configures an [Env]. The zero value is usable.
type EnvOptions struct {
	// FS is the file system of the logs. Nil is the operating system's.
	FS vfs.FS
	// Now is the clock. Nil is the system clock.
	Now func() time.Time
	// Volume is a directory on the file system that the logs are on, mostly: [Env.CloseAll] makes young ones that are on it durable
	// together, where FS is a [vfs.VolumeOpener]. Empty: each log is synced by itself.
	Volume string
	// Events receives notifications. See [Events] for what a callback may do.
	Events Events
	// MaxOpenFiles bounds the descriptors that are kept open beyond one for each log with unsynced records and those that
	// readers hold. 0 is 1024.
	MaxOpenFiles int
	// RollFlushWorkers is how many sealed segments are flushed at the same time. 0 is 4.
	RollFlushWorkers int
	// RollFlushJobs is how many sealed segments may wait for their flush, the running ones included. 0 is 256.
	RollFlushJobs int
	// RollFlushBytes bounds the producer snapshots that these hold in memory, in bytes. 0 is 64 MiB. A single larger
	// snapshot is admitted alone.
	RollFlushBytes int64
	// Jitter returns a number in [0, n) that is subtracted from a segment's age limit. Nil is a uniform random one.
	Jitter func(n int64) int64
}

// closeWorkers is how many logs [Env.Close] closes at the same time.
const closeWorkers = 16

// Env is what all logs of a process share: the file system, the clock, the events, the cache of open files and the
// background flush of sealed segments. It is safe for concurrent use.
type Env struct {
	fs      vfs.FS
	now     func() time.Time
	events  Events
	jitter  func(n int64) int64
	files   *handleCache
	roll    *rollFlusher
	volume  *syncedVolume // nil: every log is synced by itself
	stages  sync.Pool     // of *stage, empty ones
	windows sync.Pool     // of *window
	copies  sync.Pool     // of *copyBuffer

	mu struct {
		sync.Mutex
		closed bool
		logs   map[*Log]struct{}
	}
}

// NewEnv returns an environment for [Open]. Apart from the volume nothing is opened, and no goroutine is started until
// a log needs it.
func NewEnv(o EnvOptions) *Env {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxOpenFiles <= 0 {
		o.MaxOpenFiles = 1024
	}
	if o.Jitter == nil {
		o.Jitter = rand.Int64N
	}
	e := &Env{
		fs:     o.FS,
		now:    o.Now,
		events: o.Events.withDefaults(),
		jitter: o.Jitter,
		files:  newHandleCache(o.FS, o.MaxOpenFiles),
		roll:   newRollFlusher(o),
	}
	e.volume = openVolume(o.FS, o.Volume)
	e.fs = e.files.fileSystem() // what is opened beside the cache makes room for itself as well
	e.stages.New = func() any { return new(stage) }
	e.windows.New = func() any { return new(window) }
	e.copies.New = func() any { return new(copyBuffer) }
	e.mu.logs = make(map[*Log]struct{})
	return e
}

// Close closes every log that is still open, as [Log.Close] does, waits for the background flushes and releases every
// file. Regions and plans still held stay readable until they are released. A second call does nothing. It returns
// the first error of a log.
func (e *Env) Close() error {
	e.mu.Lock()
	e.mu.closed = true
	logs := make([]*Log, 0, len(e.mu.logs))
	for l := range e.mu.logs {
		logs = append(logs, l)
	}
	e.mu.Unlock()
	var first error
	nothing := func(*Log) error { return nil }
	for _, closed := range e.closeAll(logs, closeWorkers, nothing) {
		if closed.Close != nil && first == nil {
			first = closed.Close
		}
	}
	e.roll.wait()
	e.files.close()
	if e.volume != nil {
		_ = e.volume.Close() // nothing was written through it
		e.volume = nil
	}
	return first
}

func (e *Env) register(l *Log) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return ErrClosed
	}
	e.mu.logs[l] = struct{}{}
	return nil
}

func (e *Env) forget(l *Log) {
	e.mu.Lock()
	delete(e.mu.logs, l)
	e.mu.Unlock()
}

// nowMs is the clock in milliseconds since the Unix epoch.
func (e *Env) nowMs() int64 { return e.now().UnixMilli() }
