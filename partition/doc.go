// Package partition is the only way from a listener to a log.
//
// A [Log] is one topic partition. It validates what producers send, appends it to the underlying log in call order, and
// decides how far readers may read. The underlying log (today a kafkalog.Log on local disk) manages offsets, segments
// and indexes; this package decides what is durable enough to be visible.
//
// # The high watermark
//
// The high watermark never passes what would survive a power cut. With one replica that is what a sync covers,
// according to the topic's setting tidemark.flush:
//
//	group   (the default) appends are answered, and visible, when a sync that began after them has returned. Appends
//	        that arrive while a log is being synced ride on its next sync.
//	every   each append is written and synced alone before the next one is written.
//	os      Kafka's behaviour: the watermark follows the page cache. What the kernel has not written is lost by a power
//	        cut. flush.messages and flush.ms keep Kafka's meaning: the append that fills flush.messages waits for a sync,
//	        and flush.ms syncs in the background.
//
// A [Flusher] syncs all logs of a process: it keeps the set of dirty logs and a bounded number of workers. When several
// logs are dirty, their new records go into a shared journal, and one sync of the journal replaces one sync of each log
// (see package journal); the logs' own files are synced later, before the journal's space is reused. An append costs
// neither a goroutine nor a channel of its own: all appends covered by one sync share one [Append.Done] channel.
//
// A failed sync, or a write that the device failed, is final for its log until the log is reopened: the appends that
// waited for it and all later ones get [ErrStorage], and readers keep seeing what was visible before. On a full disk
// appends fail individually, until there is room.
//
// # Order of locks
//
//	Log.appending   held while one batch goes to the log under it and joins its sync; taken first. The log under it may
//	                wait in an append that begins a new segment, and holds no other lock of this package meanwhile
//	Log.mu          life of the log; held for a few instructions
//	syncer.mu       the open round and whether it is being synced; held over a call of the three below and nothing else
//	Flusher.mu, the budgets, Maintainer.mu, upkeep.mu, watchers.mu
//	                leaves: nothing is called while one is held
//
// No lock except Log.appending is held over I/O, and a sync runs without any lock.
//
// Start reading at log.go (what a log is and its life), append.go, flusher.go, journaling.go and watermark.go.
package partition
