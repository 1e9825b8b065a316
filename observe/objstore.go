package observe

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/objstore"
)

// ObjectStore observes the requests to an object store: how many of each kind, since stores charge for them, and their
// outcomes. A node without a store does not call it.
func ObjectStore(registry prometheus.Registerer, log *slog.Logger) objstore.Events {
	f := factory{registry, "objstore"}
	var (
		requests = f.counters("requests_total", "Calls to the object store, by class (write: put and list; read; delete), call and result. An upload counts as a create and a finish; its parts, one for each 16 MiB, are not counted.", "class", "call", "result")
		took     = f.histograms("request_duration_seconds", "Time of a call to the object store, by call; for an upload, until it was finished.", storeBuckets, "call")
		sent     = f.counters("sent_bytes_total", "Bytes of objects sent to the object store, by call.", "call")
		received = f.counters("received_bytes_total", "Bytes of objects that came from the object store, by call.", "call")
		deleted  = f.counter("deletes_total", "Objects that calls have deleted.")
	)
	denied := newRare()
	return objstore.Events{Called: func(e objstore.CalledEvent) {
		call, result := string(e.Op), objstore.Outcome(e.Err)
		requests.WithLabelValues(string(e.Op.Class()), call, result).Inc()
		took.WithLabelValues(call).Observe(e.Took.Seconds())
		if e.Sent > 0 {
			sent.WithLabelValues(call).Add(float64(e.Sent))
		}
		if e.Received > 0 {
			received.WithLabelValues(call).Add(float64(e.Received))
		}
		if e.Op == objstore.OpDelete && e.Err == nil {
			deleted.Add(float64(e.Keys))
		}
		if result != "denied" {
			return
		}
		if others, ok := denied.allow(); ok {
			log.Error("the object store denies access", "call", call, "key", e.Key, "error", e.Err, "others", others)
		}
	}}
}
