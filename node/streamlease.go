package node

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/observe"
)

// The holder of the metadata lease removes destroyed objects and takes over the logs of dead nodes. It needs the bucket for that.
// While it cannot reach it, nobody does either, although others may be able to. So it asks the bucket for something now and then,
// and leaves the lease to others when that has failed for long.
const (
	// askStore is how often the bucket is asked, and answerTime how long an answer may take.
	askStore, answerTime = 15 * time.Second, 10 * time.Second
	// leasePatience is for how long all answers must have failed.
	leasePatience = time.Minute
	// firstPause is how long the lease is left to others; it doubles up to lastPause while the bucket still fails after that.
	firstPause, lastPause = time.Minute, 16 * time.Minute
)

// leaseKeeper decides whether this node should hold the lease.
type leaseKeeper struct {
	*streams
	enough   time.Duration // for how long answers must have failed
	failing  time.Time     // since when every answer has failed; zero if the last one was good
	pause    time.Duration
	resigned bool
}

// keepLease asks the bucket, while this node holds the lease or has left it to others, until life ends.
func (s *streams) keepLease(life context.Context) {
	if !s.awaitStreams(life) {
		return
	}
	k := leaseKeeper{streams: s, enough: cmp.Or(s.patience, leasePatience), pause: firstPause}
	tick := time.NewTicker(cmp.Or(s.ask, askStore))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			k.look(life)
		case <-life.Done():
			return
		}
	}
}

// look asks the bucket once. With a good answer, or when no other node lives, this node may hold the lease again.
func (k *leaseKeeper) look(life context.Context) {
	if k.log.Leads() {
		k.resigned = false // the pause is over
	} else if !k.resigned {
		k.failing = time.Time{}
		return
	}
	err := k.askForOthers(life)
	switch {
	case life.Err() != nil:
	case err == nil:
		k.failing, k.pause = time.Time{}, firstPause
		if k.resigned {
			k.resigned = false
			k.log.Candidate()
		}
	case k.failing.IsZero():
		k.failing = time.Now()
	case !k.resigned && time.Since(k.failing) >= k.enough:
		k.log.Resign(k.pause)
		if tell := k.tell().LeaseLeft; tell != nil {
			tell(observe.LeaseLeftEvent{Err: err, Failing: time.Since(k.failing), Pause: k.pause})
		}
		k.resigned, k.pause = true, min(2*k.pause, lastPause)
	}
}

// askForOthers returns why the bucket does not answer, if there is something to do in it that another node may do.
func (k *leaseKeeper) askForOthers(life context.Context) error {
	ctx, cancel := context.WithTimeout(life, cmp.Or(k.askTime, answerTime))
	defer cancel()
	if !hasDuties(k.log.View()) {
		return nil
	}
	live, err := k.log.Live(ctx)
	delete(live, k.member.Node())
	if err != nil || len(live) == 0 {
		return nil // nobody is known to be there
	}
	return k.askBucket(ctx)
}

// hasDuties reports whether there is anything in the bucket that somebody must look after.
func hasDuties(view *meta.State) bool {
	return view.StreamCount()+view.StreamObjectCount()+view.StreamSetCount()+view.DestroyedCount()+view.PreparedCount() > 0
}

// askBucket asks for the object by which the cluster knows its bucket. It does not wait for whoever starts an engine, but for the
// opening of the bucket, if that is not open yet.
func (s *streams) askBucket(ctx context.Context) error {
	if store := s.reached.Load(); store != nil {
		return s.checkMark(ctx, *store)
	}
	return s.reach(ctx)
}

// isSilent reports whether an error says no more than that a store does not answer for now.
func isSilent(err error) bool {
	return objstore.Retriable(err) || errors.Is(err, context.DeadlineExceeded)
}
