package partition

// Offsets are the positions of one log at one moment: LogStart <= LastStable <= HighWatermark <= LogEnd. None of them
// ever decreases while the log is open.
type Offsets struct {
	LogStart      int64 // first offset that may be read
	LastStable    int64 // read_committed readers stop here: no open transaction below it
	HighWatermark int64 // readers stop here: everything below is durable by the topic's rule
	LogEnd        int64 // next offset to assign
	LeaderEpoch   int32
}

// Offsets returns the log's positions. It reads no file and never waits.
func (l *Log) Offsets() Offsets {
	// The order of the loads keeps the promised order of the values: each is loaded before those that bound it.
	start := l.store.LogStart()
	hw := max(l.hw.Load(), start)
	stable := max(min(l.store.LastStable(hw), hw), start)
	return Offsets{
		LogStart:      start,
		LastStable:    stable,
		HighWatermark: hw,
		LogEnd:        max(l.store.LogEnd(), hw),
		LeaderEpoch:   l.epoch.Load(),
	}
}

// Checkpoint is what the checkpoint files of a data directory keep of a log.
type Checkpoint struct {
	RecoveryPoint int64 // everything below is on disk
	HighWatermark int64
	LogStart      int64
	Trimmed       bool // LogStart is above what the files say, so it must be kept
	PageCached    bool // the log follows the page cache: its high watermark may be above what is on disk
}

// Checkpoint returns what is to be written into the checkpoint files. It reads no file and never waits, even when the
// log is closed.
func (l *Log) Checkpoint() Checkpoint {
	start := l.store.LogStart()
	c := Checkpoint{
		RecoveryPoint: l.store.RecoveryPoint(),
		HighWatermark: l.hw.Load(),
		LogStart:      start,
		Trimmed:       start > l.store.FirstSegmentBase(),
	}
	// Behind the watermark: if the log begins to follow the page cache in between, it is said to have done so already. One
	// that ceases to has its records synced before its new configuration counts: see PrepareConfig.
	c.PageCached = l.settings.Load().mode == flushOS
	return c
}

// coveredLocked decides, under the appending lock, whether records up to last are visible without another sync, and moves
// the watermark of a log that follows the page cache. This, and [Log.synced], is the whole policy of the high watermark.
func (l *Log) coveredLocked(last int64, s *settings) bool {
	if last < l.syncer.durable.Load() {
		return true
	}
	if s.mode != flushOS {
		return false
	}
	end := l.store.LogEnd()
	if end-l.syncer.durable.Load() >= s.flushMessages {
		return false
	}
	raise(&l.hw, end)
	l.armFlush(s)
	return true
}

// synced moves the watermark to what a sync made durable. The syncer calls it before it releases the appends of the round.
func (l *Log) synced(end int64) { raise(&l.hw, end) }
