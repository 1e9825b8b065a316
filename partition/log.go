package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/budget"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/partition/journal"
	"github.com/tidemark-io/tidemark/topicconfig"
)

// Options describe one log to [Open].
type Options struct {
	// Shared by all logs of a process; none may be nil. The caller closes them after its logs, Env last.
	Env        *kafkalog.Env
	Flusher    *Flusher
	Maintainer *Maintainer

	// Now is the clock; nil is time.Now.
	Now func() time.Time

	Dir     string // the log's own directory; created if it does not exist
	Topic   string
	Index   int32
	TopicID [16]byte
	Config  topicconfig.Config

	// LeaderEpoch is the term of this node's leadership, at least 0. It is written into each batch.
	LeaderEpoch int32

	// Clean says that the log was closed cleanly. Then hardly a record is read at open, and none if Summary is what
	// [Log.Summary] returned then; it may be nil.
	Clean   bool
	Summary *kafkalog.Summary

	// What the checkpoints of the data directory say, or -1: offsets that are flushed, the high watermark, and the first
	// offset that may be read. Unless the log follows the page cache, or did, everything below the high watermark is
	// flushed too, which [Log.PrepareConfig] ensures when the configuration changes: records below either are never cut
	// off as the torn end of a log. A log that ends below it is reported to LogEndBehind of Env's events.
	RecoveryPoint, HighWatermark, LogStart int64

	// PageCached says that the log followed the page cache when HighWatermark was written, whatever its configuration is now:
	// then HighWatermark does not say what is flushed.
	PageCached bool

	// Changed is called after the high watermark or the log start moved, for whoever keeps checkpoints of them. It
	// must be quick and must not call the log. May be nil.
	Changed func()

	// Room is called before each append with the number of incoming bytes; its error refuses the append, as
	// [ErrLowDisk]. It must be quick and must not call the log. If nil, there is always room.
	Room func(bytes int) error

	Events Events
}

// Log is one topic partition: it appends, reads, and knows how far readers may read. All methods are safe for
// concurrent use. The zero value is not usable; see [Open].
type Log struct {
	topic string
	index int32
	id    [16]byte
	now   func() time.Time

	store      store
	flusher    *Flusher
	syncer     syncer
	maintainer *Maintainer
	upkeep     upkeep
	events     *Events
	changed    func()
	room       func(bytes int) error
	watchers   watchers

	settings atomic.Pointer[settings]
	epoch    atomic.Int32
	hw       atomic.Int64 // never goes back

	told  atomic.Bool // reported that its disk failed and it accepts no more appends
	woken atomic.Bool // likewise those that wait for its records

	appending sync.Mutex // one batch at a time

	mu struct {
		sync.Mutex
		dir    string
		end    error         // ErrClosed, ErrDeleted or ErrNotLeader once the log accepts no more appends
		shut   bool          // the files are closed, or being closed
		closed chan struct{} // closed when the files are; made by who shuts the log
		err    error         // of shutting it
	}
}

// Open opens the log in o.Dir, which it creates if there is none. When it returns, everything in the log is durable and
// visible: whatever an unclean stop left behind has been checked and synced. It blocks on the disk, for as long as it
// takes to read what was not flushed. Errors match [ErrStorage].
func Open(o Options) (*Log, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := newSettings(o.Config)
	under, err := kafkalog.Open(o.Env, o.Dir, kafkalog.Options{
		Config:        s.logConfig(o.Maintainer.producerExpiry()),
		Clean:         o.Clean,
		Summary:       o.Summary,
		RecoveryPoint: s.proven(o),
		HighWatermark: o.HighWatermark,
		LogStart:      o.LogStart,
		Contiguous:    !o.Config.CleanupPolicy.Compacts(), // a compacted log, maybe of another server, has holes
	})
	if err != nil {
		return nil, &StorageError{Topic: o.Topic, Partition: o.Index, Doing: "open", Final: true, Err: err}
	}
	l := newLog(o, under, s)
	if err := l.start(o.LeaderEpoch, o.Clean); err != nil {
		return nil, errors.Join(err, under.Close())
	}
	return l, nil
}

// newLog puts a Log over a store. It does no I/O.
func newLog(o Options, under store, s *settings) *Log {
	l := &Log{
		topic:      o.Topic,
		index:      o.Index,
		id:         o.TopicID,
		now:        o.Now,
		store:      under,
		flusher:    o.Flusher,
		maintainer: o.Maintainer,
		events:     o.Events.withDefaults(),
		changed:    o.Changed,
		room:       o.Room,
	}
	if l.room == nil {
		l.room = func(int) error { return nil }
	}
	if l.changed == nil {
		l.changed = func() {}
	}
	l.mu.dir = o.Dir
	l.mu.closed = make(chan struct{})
	l.settings.Store(s)
	l.syncer.flusher = o.Flusher
	l.syncer.budget = budget.New(o.Flusher.options.MaxUnsyncedBytesPerLog)
	l.syncer.sync = l.syncStore
	l.syncer.advance = l.synced
	l.syncer.failing = l.reportFailed
	l.syncer.report = l.reportSync
	l.syncer.tail = l.unsyncedTail
	l.syncer.settle = l.settle
	l.syncer.key = journal.Key{Topic: o.TopicID, Partition: o.Index}
	l.upkeep.task = o.Maintainer.newTask(l.maintain)
	return l
}

// start assumes leadership and makes what is in the log visible.
func (l *Log) start(epoch int32, clean bool) error {
	l.epoch.Store(epoch)
	if err := l.store.AssignEpoch(epoch, l.store.LogEnd()); err != nil {
		return l.storageError("write the leader epoch", err, true)
	}
	end := l.store.LogEnd()
	if !clean {
		var err error
		if end, err = l.syncStore(); err != nil {
			return err
		}
	}
	l.syncer.durable.Store(end)
	l.hw.Store(end)
	l.upkeep.producers.Store(len(l.store.ActiveProducers()) > 0)
	l.scheduleUpkeep()
	return nil
}

// Topic is the name of the log's topic.
func (l *Log) Topic() string { return l.topic }

// Index is the number of the partition in its topic.
func (l *Log) Index() int32 { return l.index }

// TopicID is the id of the log's topic.
func (l *Log) TopicID() [16]byte { return l.id }

// String is the topic and the index as in a directory name.
func (l *Log) String() string { return fmt.Sprintf("%s-%d", l.topic, l.index) }

// Dir is where the log's files are. It changes when the log is deleted.
func (l *Log) Dir() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.dir
}

// Size is the bytes of the log's record files.
func (l *Log) Size() int64 { return l.store.Size() }

// Config returns the topic's current configuration.
func (l *Log) Config() topicconfig.Config { return l.settings.Load().config }

// PrepareConfig prepares the log for a configuration that is about to be made durable, and then passed to
// [Log.SetConfig]. If the log stops following the page cache with it, the next start will take the high watermark of
// the checkpoints as flushed. So appends become visible by the new rule already, and when it returns nil everything
// visible has been synced. If the configuration does not take effect, or the call fails, SetConfig with the old one
// undoes it. It waits for the device, until ctx ends. Errors match [ErrStorage], [ErrClosed].
func (l *Log) PrepareConfig(ctx context.Context, c topicconfig.Config) error {
	next := newSettings(c)
	l.appending.Lock()
	s := *l.settings.Load()
	if s.mode != flushOS || next.mode == flushOS {
		l.appending.Unlock()
		return nil
	}
	s.mode = next.mode
	l.settings.Store(&s)
	behind := l.syncer.durable.Load() < l.hw.Load()
	l.appending.Unlock()
	if !behind {
		return nil
	}
	return l.syncer.kick().wait(ctx)
}

// SetConfig applies a new configuration to everything that begins after it returns. Visible records stay visible: if
// the log stops following the page cache, a sync is started, but not waited for. If the configuration is persisted
// anywhere, call [Log.PrepareConfig] before that.
func (l *Log) SetConfig(c topicconfig.Config) {
	s := newSettings(c)
	l.appending.Lock()
	l.settings.Store(s)
	l.store.SetConfig(s.logConfig(l.maintainer.producerExpiry()))
	end := l.store.LogEnd()
	behind := l.syncer.durable.Load() < end
	l.appending.Unlock()
	if behind && s.mode == flushOS {
		l.rearmFlush(s) // flush.ms counts from now
	}
	if behind && (s.mode != flushOS || l.hw.Load() < end) { // or a sync that could not begin was to be retried
		l.syncer.kick()
	}
	l.scheduleUpkeep()
}

// ended returns why the log accepts no more appends, or nil.
func (l *Log) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.end
}

// refusal returns why an append cannot be taken, or nil.
func (l *Log) refusal() error {
	if err := l.ended(); err != nil {
		return err
	}
	return l.syncer.failure()
}

// Failed returns the error of the sync or write that ended the log's work, or nil. It matches [ErrStorage].
func (l *Log) Failed() error { return l.syncer.failure() }

// Fence makes the log refuse appends, since this node no longer leads the partition: they get [ErrNotLeader]. Reads
// continue, and so does the sync of what was appended. A second call does nothing.
func (l *Log) Fence() {
	l.stopAppends(ErrNotLeader)
	l.moved()
}

// stopAppends answers appends with err from now on, and returns after the one that is running. The first reason stays,
// but a deleted log always says that it is deleted.
func (l *Log) stopAppends(err error) {
	l.appending.Lock()
	defer l.appending.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.end == nil || errors.Is(l.mu.end, ErrNotLeader) || errors.Is(err, ErrDeleted) {
		l.mu.end = err
	}
}

// Close stops appends, syncs what was appended, completes the appends that waited for that, and closes the files. Reads
// that began before may finish; later calls get [ErrClosed]. The error matches [ErrStorage] and says that the log was
// not closed cleanly. A second call waits for the first and returns the same result.
func (l *Log) Close() error { return l.shut(ErrClosed, l.closeFiles) }

// Remove stops the log permanently: appends and reads get [ErrDeleted], appends that wait for a sync are completed, and
// the files are closed without another sync. Then retire is called, once, to rename the directory; it returns where the
// files are from then on. Readers that hold records may continue reading them. The caller deletes the directory at a
// time of its choosing.
func (l *Log) Remove(retire func() (dir string, err error)) error {
	return l.shut(ErrDeleted, func() error { return l.discardFiles(retire) })
}

// shut ends the log's life once, with the given way to close its files.
func (l *Log) shut(reason error, close_ func() error) error {
	if l.beginShut(reason) {
		l.endShut(close_())
	}
	return l.shutError()
}

// beginShut stops everything but reads. It reports false if another call has done so, or does.
func (l *Log) beginShut(reason error) bool {
	l.stopAppends(reason)
	l.mu.Lock()
	again := l.mu.shut
	l.mu.shut = true
	l.mu.Unlock()
	if again {
		return false
	}
	l.moved()
	l.upkeep.task.Stop()
	l.syncer.drain()
	return true
}

// endShut says that the files are closed.
func (l *Log) endShut(err error) {
	l.mu.err = err
	close(l.mu.closed)
}

// shutError waits for endShut.
func (l *Log) shutError() error {
	<-l.mu.closed
	return l.mu.err
}

func (l *Log) closeFiles() error {
	var done kafkalog.Closed
	if l.syncer.failure() == nil {
		done.Sync = l.store.Sync()
	}
	done.Close = l.store.Close()
	return l.closedFiles(done)
}

// closedFiles returns the error that keeps the log from being closed cleanly.
func (l *Log) closedFiles(done kafkalog.Closed) error {
	failed := l.syncer.failure()
	if failed == nil && done.Sync != nil {
		failed = l.storageError("sync", done.Sync, true)
		l.reportFailed(failed)
		l.syncer.fail(failed)
		l.wakeFailed()
	}
	if done.Close != nil {
		failed = errors.Join(failed, l.storageError("close", done.Close, true))
	}
	return failed
}

// Summary returns what lets a start after a clean stop open the log without reading a record, once it is closed. It is false
// if there is no such thing.
func (l *Log) Summary() (*kafkalog.Summary, bool) {
	files, ok := l.store.(*kafkalog.Log)
	if !ok {
		return nil, false
	}
	return files.Summary()
}

func (l *Log) discardFiles(retire func() (string, error)) error {
	l.store.Fence()
	closed := l.store.Close()
	dir, err := retire()
	if err != nil {
		return l.storageError("put the directory aside", err, true)
	}
	l.mu.Lock()
	l.mu.dir = dir
	l.mu.Unlock()
	if closed != nil {
		return l.storageError("close", closed, true)
	}
	l.events.Removed(Removed{Topic: l.topic, Partition: l.index, Dir: dir})
	return nil
}

// syncStore makes everything in the log durable and returns the offset below which that now holds.
func (l *Log) syncStore() (int64, error) {
	end, err := l.store.SyncTo()
	if err != nil {
		return 0, l.storageError("sync", err, !errors.Is(err, kafkalog.ErrTryAgain))
	}
	return end, nil
}

// reportFailed reports to the events, once, that the log accepts no more appends. It comes before the answers that say so:
// whoever gets one finds the reason in the server's log.
func (l *Log) reportFailed(err error) {
	if !l.told.Swap(true) {
		l.events.Failed(Failed{Topic: l.topic, Partition: l.index, Err: err})
	}
}

// wakeFailed has those that wait for records look, once, at a log that accepts no more appends.
func (l *Log) wakeFailed() {
	if !l.woken.Swap(true) {
		l.moved()
	}
}

// reportSync reports the result of a sync. The syncer calls it after the round was released.
func (l *Log) reportSync(r *round, err error) {
	l.events.Synced(Synced{
		Topic: l.topic, Partition: l.index,
		Appends: r.appends, Bytes: r.bytes, End: r.end, Took: r.ended.Sub(r.began), Err: err,
	})
	switch {
	case final(err):
		l.wakeFailed()
	case err != nil:
		// Nobody waits for what is in the log any more, and the next append may be a long time coming.
		l.arm(&l.upkeep.flush, monotonic().Add(syncRetryDelay))
	case r.journaled:
		l.armSettle(monotonic())
	}
	l.moved()
}

// moved notifies those that wait for changes of the log.
func (l *Log) moved() {
	l.changed()
	l.watchers.wakeAll()
}

func (l *Log) storageError(doing string, err error, final bool) error {
	return &StorageError{Topic: l.topic, Partition: l.index, Doing: doing, Final: final, Err: err}
}
