// Package partition is the one door from a listener to a log.
//
// A [Log] is one topic partition. It checks what producers send, appends it to the log under it in call order, and says
// how far readers may see. The log under it (today a kafkalog.Log on local disk) knows offsets, segments and indexes; what
// is durable enough to be visible is decided here.
//
// # The high watermark
//
// The high watermark never passes what would survive a power cut. With one replica that is what a sync covers, by the
// topic's setting tidemark.flush:
//
//	group   (the default) appends are answered, and visible, when a sync that began after them has returned. Appends
//	        that arrive while a log is being synced ride on its next sync.
//	every   each append is written and synced alone before the next one is written.
//	os      Kafka's behaviour: the watermark follows the page cache. What the kernel has not written is lost by a power
//	        cut. flush.messages and flush.ms keep Kafka's meaning: the append that fills flush.messages waits for a sync,
//	        and flush.ms syncs in the background.
//
// A [Flusher] does the syncing for all logs of a process: it keeps the set of dirty logs and a bounded number of workers. When
// several logs are dirty their new records go into a journal that they share, and one sync of that takes the place of one of each (see
// package journal); the logs' own files are synced later, before the journal's space is used again.
// An append is not a goroutine and not a channel: all appends that ride on one sync share one [Append.Done] channel.
//
// A failed sync, and a write that the device failed, is final for its log until the log is opened again: the appends that waited
// for it and every later one get [ErrStorage], and readers keep what they could see before. A full disk refuses appends one by
// one, until there is room.
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
// No lock but Log.appending is held over I/O, and a sync runs under none.
//
// Start reading at log.go (what a log is and its life), append.go, flusher.go, journaling.go and watermark.go.
package partition
