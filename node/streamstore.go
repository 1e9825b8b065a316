package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/cloud"
	"github.com/tidemark-io/tidemark/objstore/dir"
	"github.com/tidemark-io/tidemark/observe"
)

// objectsDir is the object store of a node whose configuration names none, in the data directory.
const objectsDir = "tidemark-objects"

// storeTime is how long a node waits for an object store that cannot be reached or asks clients to slow down.
const storeTime = 30 * time.Second

// StoreError says that the object store cannot be used. It wraps an [*objstore.ProbeError] that names what it lacks, or
// the error of opening it.
type StoreError struct {
	Store string // without secrets; empty if it could not be opened, and Err names it
	Err   error
}

// Error names the store and what is wrong with it.
func (e *StoreError) Error() string {
	var probe *objstore.ProbeError
	switch {
	case e.Store == "" || !errors.As(e.Err, &probe):
		return fmt.Sprintf("the object store cannot be used: %v", e.Err)
	case objstore.Retriable(e.Err) || errors.Is(e.Err, context.DeadlineExceeded):
		return fmt.Sprintf("the object store %s does not answer: %s was asked for: %v", e.Store, probe.Feature, probe.Err)
	case errors.Is(e.Err, objstore.ErrDenied):
		return fmt.Sprintf("the object store %s denies access: %s was asked for: %v", e.Store, probe.Feature, probe.Err)
	}
	return fmt.Sprintf("the object store %s cannot be used: it lacks %s: %v", e.Store, probe.Feature, probe.Err)
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// startTime is how long a start waits for an object store that does not answer, and reachAgain the pause between two later tries.
const startTime, reachAgain = 10 * time.Second, 5 * time.Second

// openStreams makes what starts a stream engine when the first stream is asked for or it is needed otherwise. A store that the
// configuration names is opened and probed now: a server should not find out hours later that it cannot write there. One that
// does not answer now is another matter: topics on disk do not need it, so they are served, and it is tried on.
func (n *Node) openStreams(ctx context.Context) error {
	c := n.config
	settings, err := c.streamConfig()
	if err != nil {
		return err
	}
	n.streams = newStreams(n.meta, n.member, streamOptions{
		open: n.openBucket, config: settings, storeCalls: c.Streams.StoreInflight,
		observe: func(state func() observe.StreamState) observe.StreamEvents {
			observe.StreamsHeld(n.reg, state)
			return observe.Streams(n.reg, n.log)
		},
	})
	n.undo("streams", n.streams.close)
	if c.Store != "" {
		if err := n.reachStore(ctx); err != nil {
			return err
		}
	}
	n.streams.watch()
	return nil
}

// reachStore makes sure that the store can be used, for the start. A store that does not answer is tried on in the background.
func (n *Node) reachStore(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err := n.streams.reach(soon)
	if err == nil || ctx.Err() != nil || !isSilent(err) {
		return err
	}
	n.storeProblem.set(err.Error())
	n.log.Warn("topics on disk are served without the object store, which is tried on; streams wait for it", "error", err)
	n.streams.loops.begin("the store", n.keepReaching)
	return nil
}

// keepReaching tries to reach the store until that succeeds or life ends. What it lacks, if it answers, is told as what is wrong
// with it.
func (n *Node) keepReaching(life context.Context) {
	for {
		err := n.streams.reach(life)
		switch {
		case life.Err() != nil:
			return
		case err == nil:
			n.storeProblem.set("")
			n.log.Info("the object store answers")
			return
		case n.storeProblem.get() != err.Error():
			n.storeProblem.set(err.Error())
			n.log.Error("the object store cannot be used; it is tried on", "error", err)
		}
		select {
		case <-time.After(reachAgain):
		case <-life.Done():
			return
		}
	}
}

// openBucket opens the object store that the configuration names, or the one in the data directory. Metrics tell of it from
// then on.
func (n *Node) openBucket(ctx context.Context) (store objstore.Store, err error) {
	name, local := path.Join(n.config.DataDir, objectsDir), true
	if n.config.Store != "" {
		if name, local, err = localPath(n.config.Store); err != nil {
			return nil, err
		}
	}
	if local {
		store, err = dir.Open(n.config.FS, name)
	} else {
		store, err = cloud.Open(ctx, n.config.Store, cloud.Options{Replaces: n.warnOfReplacing})
	}
	if err != nil {
		return nil, err
	}
	n.storeEvents.Do(func() { n.storeCalled = observe.ObjectStore(n.reg, n.log) })
	return objstore.Observed(store, n.storeCalled), nil
}

// warnOfReplacing logs that the store lacks the feature that keeps two clusters from replacing each other's large
// objects.
func (n *Node) warnOfReplacing() {
	n.log.Warn("the object store ignores If-None-Match when an upload in parts is finished: a data object of this cluster could "+
		"replace one of a copy of it that uses the same bucket", "store", n.config.Store)
}

// probeStore probes a store for every required feature, and retries for as long as patience while the failure may be
// temporary.
func probeStore(ctx context.Context, store objstore.Store, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var failed error
	for {
		err := objstore.Probe(ctx, store)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil: // an error that was cut short says less than the one before it
			return cmp.Or(failed, err)
		case !objstore.Retriable(err):
			return err
		}
		failed = err
		select {
		case <-time.After(probeAgain):
		case <-ctx.Done():
			return failed
		}
	}
}

// probeAgain is the pause between two probes.
const probeAgain = time.Second
