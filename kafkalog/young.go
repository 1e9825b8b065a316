package kafkalog

import (
	"path"
	"slices"
)

// A log that was just made is one file of records until it has more than a few: it has no index, and the leader epochs and
// the producers are made when it is opened, after a clean stop from its [Summary], otherwise from the records, which costs
// no more than to read them from files of their own. With 5,000 partitions that got their first records, to make these
// files was most of the time that a stop took.

// youngBytes is how many bytes of records may be all that there is of a log: a few reads from one file, where a log with
// all its files needs one from each of four.
const youngBytes = 64 << 10

// isYoung reports whether the records are all that there must be of the log: they are few, all that were ever appended,
// and nothing else was written. The lock is held.
func (l *Log) isYoung() bool {
	v := l.view.Load()
	s := v.active()
	return len(v.segments) == 1 && s.base == 0 && s.noIndexes && s.size.Load() <= youngBytes &&
		v.start == 0 && !v.established && l.mu.startOwed < 0 && l.epochs.optional && len(l.snapshots.all()) == 0
}

// onlyRecords reports whether the files of a log are those of a young one, but for its size: the records from offset 0 on,
// and perhaps the index of aborted transactions, which is never made from them without a reason.
func onlyRecords(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		switch name {
		case fileName(0, logSuffix), fileName(0, txnIndexSuffix):
			return false
		case epochFileName, logStartFileName:
			return true
		}
		return isLogName(name) || isIndexName(name) || path.Ext(name) == snapshotSuffix
	})
}

// replayYoung lets the producers take in the summary, or else all records. Nothing is written.
func (ld *loader) replayYoung() (err error) {
	state := ld.log.producers.state
	if ld.summary != nil {
		state.loadSummary(ld.summary.producers, ld.env.nowMs(), ld.config.ProducerExpirationMs)
	} else {
		err = ld.segments[0].replay(state, 0, ld.end)
	}
	state.setEnd(ld.end)
	return err
}
