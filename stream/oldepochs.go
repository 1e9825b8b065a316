package stream

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// CleanLogOptions say whose log [CleanLog] cleans.
type CleanLogOptions struct {
	// Catalog is the metadata: a [catalog.Catalog], or anything else that has a view.
	Catalog interface{ View() catalog.View }
	// WAL is the store of the write-ahead logs.
	WAL objstore.Store
	// Cluster is the cluster's name in the keys, Node the node.
	Cluster string
	Node    catalog.NodeID
	// FenceRetention is how long a fence is kept, as [Config.WALFenceRetention]; 0 is the default.
	FenceRetention time.Duration
}

// CleanLog removes the leftovers of older epochs of a node from a log that was closed, by the node or by
// [Engine.Failover]. A running engine does this for its own node and for those that it took over; CleanLog is for nodes
// that do not come back. It makes one pass, and returns the time at which the fences that it kept will be old enough;
// the zero time if nothing is left. It removes nothing from a log that is not closed, or of a node that the catalog
// does not know. A node that comes back meanwhile is not harmed: its log has a higher epoch. Errors are the store's.
func CleanLog(ctx context.Context, o CleanLogOptions) (again time.Time, err error) {
	state, known := o.Catalog.View().Node(o.Node)
	if !known || state.WALEpoch >= 0 {
		return again, nil
	}
	r := endedEpochs{o.WAL, cmp.Or(o.FenceRetention, DefaultConfig().WALFenceRetention)}
	return r.remove(ctx, catalog.Node{ID: o.Node, Epoch: state.Epoch}, WALPrefix{Cluster: o.Cluster, Node: o.Node})
}

// removeOldEpochs deletes what older epochs of the node left: everything that they acknowledged is committed by now
// (WAL-24). Young fences stay (WAL-22), and are deleted once they are old: a writer that slept that long acknowledges
// nothing when it wakes up, whether its fence still exists or not (WAL-12). Objects above a fence stay as long as it
// does, see [RecoveredEvent.Dead]. Failed deletions are retried until ctx ends.
func (e *Engine) removeOldEpochs(ctx context.Context, node catalog.Node, prefix WALPrefix) {
	for {
		young, err := endedEpochs{e.options.WAL, e.options.Config.WALFenceRetention}.remove(ctx, node, prefix)
		wait := time.Until(young)
		switch {
		case ctx.Err() != nil || err == nil && young.IsZero():
			return
		case err != nil:
			wait = deleteRetry
			if e.options.Events.WALDeleteFailed != nil {
				e.options.Events.WALDeleteFailed(FailedEvent{err})
			}
		}
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// endedEpochs removes what older epochs of nodes left.
type endedEpochs struct {
	store     objstore.Store
	retention time.Duration // of fences, and of what lies above one
}

// remove checks the log of a node once, all of whose earlier epochs were recovered. It returns when the fences that it
// had to keep will all be old, by the clock of this machine; the zero time if it kept none.
func (r endedEpochs) remove(ctx context.Context, node catalog.Node, prefix WALPrefix) (again time.Time, err error) {
	listed, err := listAll(ctx, r.store, prefix.String())
	if err != nil {
		return again, err
	}
	ended := map[int64]*endedEpoch{}
	var order []*endedEpoch
	for _, o := range listed {
		key, err := prefix.Parse(o.Key)
		if err != nil || key.Epoch >= node.Epoch {
			continue // written after the check, and not ours
		}
		epoch := ended[key.Epoch]
		if epoch == nil {
			epoch = &endedEpoch{epoch: key.Epoch}
			ended[key.Epoch] = epoch
			order = append(order, epoch)
		}
		if err := epoch.add(ctx, r.store, key, o); err != nil {
			return again, err
		}
	}
	now := time.Now()
	at := now // the time in stores that have no fences
	own, fences, young := r.removable(order, at)
	if len(fences) > 0 {
		stored, err := r.storeTime(ctx)
		if err != nil {
			return again, err
		}
		if stored.Before(at) {
			at = stored
			own, fences, young = r.removable(order, at)
		}
	}
	if !young.IsZero() {
		again = now.Add(young.Add(r.retention).Sub(at))
	}
	if err := deleteInOrder(ctx, r.store, own); err != nil {
		return again, err
	}
	return again, deleteAll(ctx, r.store, fences) // objects above one go first: without it they would no longer count as dead
}

// deleteInOrder removes objects one after the other and stops at the first that cannot be removed. What remains of a log that is
// removed in its order has no holes. To a process that lost the metadata, and does not know that the log was recovered, a hole is
// a lost object ([Rebuild]). A request that deletes many keys may leave any of them.
func deleteInOrder(ctx context.Context, store objstore.Store, keys []string) error {
	for _, key := range keys {
		if err := store.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// removable returns what may be deleted at a time: older epochs first, each in the order of its log. young is when the youngest
// remaining fence was put, zero if none remains.
func (r endedEpochs) removable(epochs []*endedEpoch, at time.Time) (own, fences []string, young time.Time) {
	slices.SortFunc(epochs, func(a, b *endedEpoch) int { return cmp.Compare(a.epoch, b.epoch) })
	for _, epoch := range epochs {
		objects, expired, put := epoch.removable(at.Add(-r.retention))
		own, fences = append(own, objects...), append(fences, expired...)
		if put.After(young) {
			young = put
		}
	}
	return own, fences, young
}

// storeTime returns the time on the clock of the store, which dates objects. A fence must be old by that clock too: a
// machine whose clock is days ahead would remove it while the writer that it keeps out is still running.
func (r endedEpochs) storeTime(ctx context.Context) (now time.Time, err error) {
	key := objstore.ProbePrefix + rand.Text() + "-clock"
	if err := r.store.Put(ctx, key, nil); err != nil {
		return now, err
	}
	info, err := r.store.Head(ctx, key)
	if left := r.store.Delete(ctx, key); left != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateDelete)
		defer cancel()
		err = errors.Join(err, left, r.store.Delete(late, key))
	}
	return info.Modified, err
}

// lateDelete is how long the deletion of an unneeded object may take after its context has ended.
const lateDelete = time.Second

// endedEpoch is what an older epoch of a node left.
type endedEpoch struct {
	epoch       int64
	own, fences []endedObject
	trim        int64 // the greatest one that a fence carries, plus one
}

type endedObject struct {
	objstore.Info
	start int64
}

// add adds an object; only one of a fence's size is read. One that has vanished is skipped.
func (p *endedEpoch) add(ctx context.Context, store objstore.Store, key WALKey, o objstore.Info) error {
	object := endedObject{o, key.Start}
	if o.Size != fenceSize {
		p.own = append(p.own, object)
		return nil
	}
	h, err := readWALHeader(ctx, store, o.Key, o.Size)
	switch {
	case errors.Is(err, errVanished):
	case err != nil:
		return err
	case h.Epoch > key.Epoch:
		p.fences = append(p.fences, object)
		p.trim = max(p.trim, h.Trim+1)
	default:
		p.own = append(p.own, object)
	}
	return nil
}

// removable returns the keys that may be deleted: objects of the writer unless a remaining fence ended the log below
// them, and fences that are older than a time. young is the age of the youngest remaining fence, zero if none remains.
func (p *endedEpoch) removable(before time.Time) (own, fences []string, young time.Time) {
	var end *endedObject // the fence that ended the log: the lowest one that is not stale (WAL-13)
	for i, f := range p.fences {
		if f.Modified.After(before) {
			if f.Modified.After(young) {
				young = f.Modified
			}
			if f.start >= p.trim && (end == nil || f.start < end.start) {
				end = &p.fences[i]
			}
			continue
		}
		fences = append(fences, f.Key)
	}
	slices.SortFunc(p.own, func(a, b endedObject) int { return cmp.Compare(a.start, b.start) }) // keys are not in this order
	for _, o := range p.own {
		if end == nil || o.start < end.start {
			own = append(own, o.Key)
		}
	}
	return own, fences, young
}
