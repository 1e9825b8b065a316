package observe

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/meta"
)

// Meta observes the metadata log.
func Meta(registry prometheus.Registerer, log *slog.Logger) meta.Events {
	f := factory{registry, "meta"}
	var (
		index     = f.gauge("applied_index", "Index of the newest entry that is applied here.")
		entries   = f.counter("entries_applied_total", "Entries applied here.")
		bytes     = f.counter("entry_bytes_total", "Bytes of the entries applied here.")
		commands  = f.counter("commands_applied_total", "Commands in the entries applied here.")
		rejected  = f.counter("commands_rejected_total", "Commands that changed nothing because they could not be done.")
		retries   = f.counter("retries_total", "Backend calls that were retried.")
		snapshots = f.counter("snapshots_total", "Snapshots stored.")
		size      = f.gauge("snapshot_bytes", "Bytes of the newest snapshot stored here.")
		fallbacks = f.counter("snapshot_fallbacks_total", "Damaged snapshots that were replaced by an older one and the entries since.")
		stopped   = f.gauge("stopped", "1 if the metadata log has stopped and the server must be restarted.")
	)
	return meta.Events{
		Applied: func(e meta.AppliedEvent) {
			index.Set(float64(e.Index))
			entries.Inc()
			bytes.Add(float64(e.Bytes))
			commands.Add(float64(e.Commands))
			rejected.Add(float64(e.Rejected))
		},
		Retrying: func(e meta.RetryEvent) {
			retries.Inc()
			log.Warn("the metadata backend did not answer", "attempt", e.Attempt, "after", e.After, "error", e.Err)
		},
		Snapshotted: func(e meta.SnapshotEvent) {
			snapshots.Inc()
			size.Set(float64(e.Bytes))
			log.Debug("metadata snapshot", "index", e.Index, "bytes", e.Bytes, "truncated", e.Truncated)
		},
		FellBack: func(e meta.FallbackEvent) {
			fallbacks.Inc()
			log.Error("a metadata snapshot is damaged and was rebuilt from an older one and all entries since: "+
				"check the disk", "snapshot", e.Damaged, "from", e.From, "entries", e.Entries, "error", e.Err)
		},
		Stopped: func(err error) {
			stopped.Set(1)
			log.Error("the metadata log stopped: restart the server", "error", err)
		},
	}
}
