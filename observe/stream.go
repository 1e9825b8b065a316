package observe

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/stream"
)

// retriesEvery limits how often a kind of retry is logged. An unreachable store fails many calls a second.
const retriesEvery = 10 * time.Second

// Buckets for requests to an object store: from a directory's fsync to a bucket in trouble.
var (
	storeBuckets    = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	recoveryBuckets = []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800}
)

// StreamEvents receives what happens to streams: in the engine, and where the node recovers the logs of other nodes.
type StreamEvents struct {
	Engine   stream.Events
	TakeOver func(TakeOverEvent)
	// LeaseLeft is called when this node has left the metadata lease to others.
	LeaseLeft func(LeaseLeftEvent)
}

// LeaseLeftEvent tells that the holder of the metadata lease has left it to others, because it cannot reach the bucket.
type LeaseLeftEvent struct {
	// Err is what the bucket was asked for last, Failing for how long it has failed, and Pause how long the lease is left.
	Err            error
	Failing, Pause time.Duration
}

// TakeOverEvent reports that the holder of the metadata lease took over the log of a dead node, or tried to.
type TakeOverEvent struct {
	Node int32
	// Own says that the node is this one, whose engine could not be started: Err is why.
	Own  bool
	Took time.Duration
	// Try counts from 1. Err is why it failed; it is retried while the node stays dead and this one has the lease.
	Try int
	Err error
}

// Streams observes stream engines, one after the other. A node without streams does not call it.
func Streams(registry prometheus.Registerer, log *slog.Logger) StreamEvents {
	f := factory{registry, "stream"}
	var e stream.Events
	observeEngine(f, log, &e)
	observeRecovery(f, log, &e)
	observeWAL(f, log, &e)
	observeUploads(f, log, &e)
	observeCompaction(f, log, &e)
	return StreamEvents{Engine: e, TakeOver: observeTakeOvers(f, log), LeaseLeft: observeLease(f, log)}
}

// observeEngine reports engines that begin and fail.
func observeEngine(f factory, log *slog.Logger, e *stream.Events) {
	var (
		opened = f.counter("engine_starts_total", "Starts of the stream engine: one, and one more after each failure.")
		failed = f.counters("engine_failures_total", "Stream engines that stopped accepting appends, by reason: fenced, when another process had taken the node over, or failed.", "reason")
	)
	for _, reason := range []string{"fenced", "failed"} {
		failed.WithLabelValues(reason)
	}
	e.Opened = func(o stream.OpenedEvent) {
		opened.Inc()
		log.Info("the stream engine accepts appends", "node", o.Node.ID, "epoch", o.Node.Epoch, "start", o.Start, "took", o.Took)
	}
	e.Failed = func(x stream.FailedEvent) {
		if errors.Is(x.Err, stream.ErrFenced) {
			failed.WithLabelValues("fenced").Inc()
			log.Error("the stream engine accepts no more appends: another process has taken the node over", "error", x.Err)
			return
		}
		failed.WithLabelValues("failed").Inc()
		log.Error("the stream engine accepts no more appends until it is restarted", "error", x.Err)
	}
}

// observeRecovery reports what recovery found in the log of an older epoch.
func observeRecovery(f factory, log *slog.Logger, e *stream.Events) {
	var (
		took    = f.histogram("recovery_duration_seconds", "Time to recover the log of an older epoch, of this node or of one that it took over.", recoveryBuckets)
		records = f.counter("recovered_records_total", "Records that recovery found in logs and committed.")
		bytes   = f.counter("recovered_bytes_total", "Bytes of the records that recovery committed.")
		dropped = f.counters("recovery_dropped_records_total", "Records that recovery did not commit, by reason: trimmed or committed (they are in objects already), or foreign (their stream is gone or another node's).", "reason")
	)
	e.Recovered = func(r stream.RecoveredEvent) {
		took.Observe(r.Took.Seconds())
		records.Add(float64(r.Records))
		bytes.Add(float64(r.Bytes))
		dropped.WithLabelValues("trimmed").Add(float64(r.Dropped.Trimmed))
		dropped.WithLabelValues("committed").Add(float64(r.Dropped.Committed))
		dropped.WithLabelValues("foreign").Add(float64(r.Dropped.Foreign))
		log.Info("the log of streams was recovered", "node", r.Node.ID, "ended_epoch", r.Epoch, "epoch", r.Node.Epoch,
			"fence", r.To, "objects", r.Objects, "records", r.Records, "bytes", r.Bytes, "foreign", r.Dropped.Foreign, "took", r.Took)
		if len(r.Dead) > 0 {
			log.Warn("a log has objects above where it ends, because one before them is missing: a crash leaves such objects, and so does "+
				"deleting one from the bucket; they are kept as long as the fence", "node", r.Node.ID,
				"ended_epoch", r.Epoch, "fence", r.To, "objects", len(r.Dead), "first", r.Dead[0])
		}
	}
}

// observeWAL reports on the write-ahead log.
func observeWAL(f factory, log *slog.Logger, e *stream.Events) {
	var (
		waited        = f.histogram("append_duration_seconds", "Time from the first record of a log object to the acknowledgement of them all.", storeBuckets)
		riders        = f.histogram("wal_object_records", "Records that one log object acknowledged.", countBuckets)
		bytes         = f.counter("appended_bytes_total", "Bytes of records that were acknowledged, as the log frames them.")
		retries       = f.counter("wal_put_retries_total", "Puts of log objects that were retried because their outcome was unknown.")
		deleted       = f.counter("wal_objects_deleted_total", "Log objects that were deleted because other objects hold their records.")
		deletesFailed = f.counter("wal_delete_failures_total", "Times that log objects could not be deleted. It is retried.")
	)
	again := newRare()
	e.Acknowledged = func(a stream.AcknowledgedEvent) {
		waited.Observe(a.Waited.Seconds())
		riders.Observe(float64(a.Records))
		bytes.Add(float64(a.Bytes))
	}
	e.PutRetried = func(r stream.PutRetriedEvent) {
		retries.Inc()
		if others, ok := again.allow(); ok {
			log.Warn("a log object of streams could not be stored; it is retried, and appends wait", "key", r.Key, "try", r.Try,
				"delay", r.Delay, "error", r.Err, "others", others)
		}
	}
	e.WALDeleted = func(d stream.WALDeletedEvent) {
		deleted.Add(float64(len(d.Keys)))
		log.Debug("log objects of streams removed", "objects", len(d.Keys), "trim", d.Trim)
	}
	e.WALDeleteFailed = func(x stream.FailedEvent) {
		deletesFailed.Inc()
		log.Warn("log objects of streams could not be deleted; it is retried", "error", x.Err)
	}
}

// observeUploads reports on uploads to objects and reads from them.
func observeUploads(f factory, log *slog.Logger, e *stream.Events) {
	var (
		took         = f.histogram("upload_duration_seconds", "Time to put a block of the log cache into objects and to commit them.", storeBuckets)
		objects      = f.counter("uploaded_objects_total", "Objects that uploads have committed.")
		bytes        = f.counter("uploaded_bytes_total", "Bytes of records in the objects that uploads have committed.")
		retries      = f.counters("upload_retries_total", "Steps of uploads that were retried, by step: prepare, write or commit.", "step")
		readRetries  = f.counter("read_retries_total", "Store calls of reads that were retried.")
		again, reads = newRare(), newRare()
	)
	for _, step := range []string{"prepare", "write", "commit"} {
		retries.WithLabelValues(step)
	}
	e.Uploaded = func(u stream.UploadedEvent) {
		took.Observe(u.Took.Seconds())
		objects.Add(float64(u.Objects))
		bytes.Add(float64(u.Bytes))
		log.Debug("records of streams uploaded", "objects", u.Objects, "streams", u.Streams, "bytes", u.Bytes, "waited", u.Waited,
			"took", u.Took)
	}
	e.UploadRetried = func(u stream.UploadRetriedEvent) {
		retries.WithLabelValues(u.Step).Inc()
		if others, ok := again.allow(); ok {
			log.Warn("an upload of streams failed and is retried", "step", u.Step, "key", u.Key, "try", u.Try, "delay",
				u.Delay, "error", u.Err, "others", others)
		}
	}
	e.ReadRetried = func(r stream.StoreRetriedEvent) {
		readRetries.Inc()
		if others, ok := reads.allow(); ok {
			log.Warn("a read of streams failed and is retried", "call", r.Op, "key", r.Key, "try", r.Try, "delay",
				r.Delay, "error", r.Err, "others", others)
		}
	}
}

// observeCompaction reports on compaction and the cleaner.
func observeCompaction(f factory, log *slog.Logger, e *stream.Events) {
	var (
		rounds        = f.counters("compactions_total", "Commits that replaced objects by others, by kind.", "kind")
		took          = f.histogram("compaction_duration_seconds", "Time from the plan to the commit of one compaction.", recoveryBuckets)
		replaced      = f.counter("compaction_sources_total", "Objects that compaction has replaced.")
		made          = f.counter("compaction_outputs_total", "Objects that compaction has written.")
		read          = f.counter("compaction_read_bytes_total", "Bytes that compaction has read from the store.")
		written       = f.counter("compaction_written_bytes_total", "Bytes that compaction has written to the store.")
		retries       = f.counter("compaction_retries_total", "Store calls of compaction that were retried.")
		failures      = f.counter("compaction_failures_total", "Rounds of compaction that failed and are retried, and damaged objects that it left out.")
		deleted       = f.counter("objects_deleted_total", "Destroyed objects that the cleaner has deleted.")
		deletesFailed = f.counter("object_delete_failures_total", "Destroyed objects that the cleaner could not delete. It retries.")
		expired       = f.counter("prepared_expired_total", "Reserved object ids that expired because nobody committed them in time.")
		again         = newRare()
	)
	e.Compacted = func(c stream.CompactedEvent) {
		rounds.WithLabelValues(c.Kind).Inc()
		took.Observe(c.Took.Seconds())
		replaced.Add(float64(c.Sources))
		made.Add(float64(c.Outputs))
		read.Add(float64(c.BytesRead))
		written.Add(float64(c.BytesWritten))
		log.Debug("objects of streams compacted", "kind", c.Kind, "stream", c.Stream, "sources", c.Sources, "outputs", c.Outputs,
			"read", c.BytesRead, "written", c.BytesWritten, "excluded", c.Excluded, "took", c.Took)
	}
	e.CompactionRetried = func(r stream.StoreRetriedEvent) {
		retries.Inc()
		if others, ok := again.allow(); ok {
			log.Warn("a store call of a compaction of streams failed and is retried", "call", r.Op, "key", r.Key, "try", r.Try,
				"delay", r.Delay, "error", r.Err, "others", others)
		}
	}
	e.CompactionFailed = func(x stream.FailedEvent) {
		failures.Inc()
		log.Warn("a compaction of streams failed; it is retried later", "error", x.Err)
	}
	e.Cleaned = func(c stream.CleanedEvent) {
		expired.Add(float64(c.Expired))
		deleted.Add(float64(c.Deleted))
		deletesFailed.Add(float64(c.Failed))
		if c.Failed > 0 {
			log.Warn("destroyed objects of streams could not be deleted; it is retried", "failed", c.Failed, "deleted",
				c.Deleted, "error", c.Err)
			return
		}
		log.Debug("destroyed objects of streams removed", "deleted", c.Deleted, "expired", c.Expired, "took", c.Took)
	}
}

// observeTakeOvers reports on the logs of dead nodes.
func observeTakeOvers(f factory, log *slog.Logger) func(TakeOverEvent) {
	var (
		done      = f.counter("takeovers_total", "Logs of dead nodes that this node has taken over as holder of the metadata lease.")
		failures  = f.counter("takeover_failures_total", "Times that the log of a dead node could not be taken over. It is retried.")
		unstarted = f.counter("engine_start_failures_total", "Times that the stream engine of this node could not be started, when it was needed and nobody had asked for a stream. It is retried.")
	)
	return func(e TakeOverEvent) {
		if e.Own {
			unstarted.Inc()
			log.Warn("the stream engine could not be started; it is retried", "try", e.Try, "took", e.Took, "error", e.Err)
			return
		}
		if e.Err != nil {
			failures.Inc()
			log.Warn("the streams' log of a dead node could not be taken over; it is retried", "node", e.Node, "try", e.Try,
				"took", e.Took, "error", e.Err)
			return
		}
		done.Inc()
		log.Warn("the streams' log of a dead node was taken over: what it had acknowledged is kept, and its streams can be opened "+
			"elsewhere", "node", e.Node, "try", e.Try, "took", e.Took)
	}
}

// observeLease tells that the lease was left to others.
func observeLease(f factory, log *slog.Logger) func(LeaseLeftEvent) {
	left := f.counter("lease_resignations_total", "Times that this node left the metadata lease to others, because it could not reach the object store.")
	return func(e LeaseLeftEvent) {
		left.Inc()
		log.Warn("the object store cannot be reached: this node leaves the metadata lease to others, and requests it again later",
			"failing", e.Failing, "pause", e.Pause, "error", e.Err)
	}
}

func newRare() *rare { return &rare{every: retriesEvery, now: time.Now} }

// StreamState is the state of streams in the metadata, and the current calls of the store.
type StreamState struct {
	Streams    int // existing ones
	Objects    int // stream objects
	SetObjects int // stream-set objects
	// Destroyed objects wait for the end of their grace, or could not be removed yet.
	Destroyed int
	// DeadLogs are logs of nodes that the holder of the metadata lease considers dead, and that have not been taken over
	// yet.
	DeadLogs int
	// StoreCalls are calls of the object store in flight, StoreWaiting those that wait for the limit.
	StoreCalls, StoreWaiting int
}

// StreamsHeld observes a [StreamState]. state is called at each scrape.
func StreamsHeld(registry prometheus.Registerer, state func() StreamState) {
	f := factory{registry, "stream"}
	f.gaugeFunc("streams", "Streams that exist in the cluster.", func() float64 { return float64(state().Streams) })
	f.gaugeFunc("objects", "Objects that hold one stream each.", func() float64 { return float64(state().Objects) })
	f.gaugeFunc("set_objects", "Objects that hold several streams each.", func() float64 { return float64(state().SetObjects) })
	f.gaugeFunc("objects_destroyed", "Objects that nothing uses any more but that are not deleted yet: their grace period is not over, or deleting them failed.",
		func() float64 { return float64(state().Destroyed) })
	f.gaugeFunc("dead_logs", "Logs of dead nodes that are not taken over yet. Only the holder of the metadata lease reports it.",
		func() float64 { return float64(state().DeadLogs) })
	f.gaugeFunc("store_calls", "Calls of the object store in flight for streams.",
		func() float64 { return float64(state().StoreCalls) })
	f.gaugeFunc("store_calls_waiting", "Calls of the object store that wait because as many as store.inflight allows are in flight.",
		func() float64 { return float64(state().StoreWaiting) })
}
