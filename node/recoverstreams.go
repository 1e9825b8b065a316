package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
	streamcatalog "github.com/tidemark-io/tidemark/stream/catalog"
)

// RecoveredStreams is what a bucket holds of streams whose metadata is lost. [stream.Rebuilt] says what a bucket cannot
// show; besides, no object says which table or topic a stream belongs to, or what keys of the metadata held.
type RecoveredStreams struct {
	Store string `json:"store"`
	// Streams are in the order of their ids.
	Streams []RecoveredStream `json:"streams"`
	// Logs are the write-ahead logs of nodes.
	Logs []RecoveredLog `json:"logs"`
	// LoggedRecords, with LoggedBytes of payload, are only in those logs: they are written to objects.
	LoggedRecords int64 `json:"logged_records"`
	LoggedBytes   int64 `json:"logged_bytes"`
	// Objects are used; Replaced hold only records that others hold too, and are removed ReplacedKeptMs after the
	// recovery; Copied are used in part, which is copied.
	Objects  int `json:"objects"`
	Replaced int `json:"replaced"`
	Copied   int `json:"copied"`
	// ReplacedKeptMs is how long replaced objects are kept, in ms.
	ReplacedKeptMs int64 `json:"replaced_kept_ms"`
	// Findings are for the operator. Those that stop prevent a rebuild unless their objects are left out.
	Findings []RecoveredFinding `json:"findings"`
}

// RecoveredStream is a stream as found in objects and logs.
type RecoveredStream struct {
	ID streamcatalog.StreamID `json:"stream"`
	// Start is its first offset: trimmed records may reappear. ObjectEnd is where objects end, and End where the log that
	// continues them ends.
	Start     int64 `json:"start_offset"`
	ObjectEnd int64 `json:"object_end_offset"`
	End       int64 `json:"end_offset"`
	// Epoch is the highest of any record. The next open uses a higher one.
	Epoch int64 `json:"epoch"`
}

// RecoveredLog is the write-ahead log of a node.
type RecoveredLog struct {
	Node streamcatalog.NodeID `json:"node"`
	// Epoch is the node's highest known one; the next one is above it.
	Epoch int64 `json:"epoch"`
	// Drained says that nothing in it has to be recovered.
	Drained bool `json:"drained"`
}

// RecoveredFinding is an observation about a bucket for the operator.
type RecoveredFinding struct {
	Stops  bool   `json:"stops"`
	Detail string `json:"detail"`
}

// replacedKept is how long replaced objects are kept after a recovery: long enough to notice that something is wrong with
// it.
const replacedKept = 7 * 24 * time.Hour

// streamRecovery rebuilds the streams of a bucket.
type streamRecovery struct {
	store  objstore.Store
	node   int32
	now    time.Time
	made   *stream.Rebuilt
	events stream.Events
}

// recoverStreams finds the streams of a bucket. There are none if there is no bucket, or no streams in it.
func (plan *RecoverPlan) recoverStreams(ctx context.Context, o RecoverOptions, now time.Time) (*streamRecovery, error) {
	if o.Store == "" {
		return nil, nil
	}
	store, err := ReadObjects(ctx, o.Store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &streamRecovery{store: store, node: plan.NodeID, now: now}
	err = r.look(ctx, plan, o)
	return r, errors.Join(err, store.Close())
}

// look reads the bucket, and adds what it holds to the plan.
func (r *streamRecovery) look(ctx context.Context, plan *RecoverPlan, o RecoverOptions) error {
	made, err := stream.Rebuild(ctx, r.options(plan.identity, o))
	var damaged *stream.RebuildError
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	r.made = made
	plan.Streams = r.tell()
	if damaged != nil {
		return &StreamsLostError{Store: r.store.String(), Objects: len(damaged.Findings), Err: err}
	}
	if made.Cluster != "" {
		plan.ClusterID = made.Cluster
	}
	return nil
}

func (r *streamRecovery) options(cluster string, o RecoverOptions) stream.RebuildOptions {
	return stream.RebuildOptions{
		WAL: r.store, Data: r.store, Cluster: cluster, Node: streamcatalog.NodeID(r.node), LeaveOut: o.LeaveOut,
		Progress: o.ObjectProgress,
	}
}

// isEmpty reports whether the bucket holds no streams.
func (r *streamRecovery) isEmpty() bool {
	return r == nil || len(r.made.Streams)+len(r.made.Nodes)+len(r.made.Findings)+len(r.made.Replaced) == 0
}

// tell returns the plan's part about streams.
func (r *streamRecovery) tell() *RecoveredStreams {
	if r.isEmpty() {
		return nil
	}
	told := &RecoveredStreams{
		Store: r.store.String(), Streams: []RecoveredStream{}, Logs: []RecoveredLog{}, Findings: []RecoveredFinding{},
		LoggedRecords: r.made.LoggedRecords, LoggedBytes: r.made.LoggedBytes, Objects: len(r.made.Sets) + len(r.made.Objects),
		Replaced: len(r.made.Replaced), Copied: len(r.made.Copies), ReplacedKeptMs: replacedKept.Milliseconds(),
	}
	for _, s := range r.made.Streams {
		told.Streams = append(told.Streams, RecoveredStream{s.ID, s.Start, s.End, max(s.End, r.made.LogEnds[s.ID]), s.Epoch})
	}
	for _, n := range r.made.Nodes {
		told.Logs = append(told.Logs, RecoveredLog{Node: n.ID, Epoch: n.Epoch, Drained: n.WALEpoch < 0})
	}
	for _, f := range r.made.Findings {
		told.Findings = append(told.Findings, RecoveredFinding{Stops: f.Stops, Detail: f.String()})
	}
	return told
}

// add adds the streams to a state.
func (r *streamRecovery) add(s *meta.State) (*meta.State, error) {
	return s.WithStreams(meta.StreamTables{
		Streams: r.made.Streams, Nodes: r.made.Nodes, Sets: r.made.Sets, Objects: r.made.Objects, NextStream: r.made.NextStream,
		NextObject: r.made.NextObject, Reserved: r.made.Replaced, ReservedUntilMs: r.now.Add(replacedKept).UnixMilli(),
	})
}

// execute opens the bucket for writing, and finishes the recovery.
func (r *streamRecovery) execute(
	ctx context.Context, url, cluster string, s *meta.State, scratch string,
) (*meta.State, error) {
	store, err := WriteObjects(ctx, url)
	if err != nil {
		return nil, err
	}
	done, err := r.finish(ctx, store, cluster, s, scratch)
	return done, errors.Join(err, store.Close())
}

// finish writes what has to be written to the bucket: parts of objects are copied, and records that only logs hold are
// written to objects, as a start of each node would. It returns the state in which nothing is left to recover and which
// knows the bucket by a mark. scratch is the name of a file that it may use.
//
// A crash leaves objects that no metadata mentions; the next recovery finds them like all others.
func (r *streamRecovery) finish(
	ctx context.Context, store objstore.Store, cluster string, s *meta.State, scratch string,
) (*meta.State, error) {
	o := r.options(cluster, RecoverOptions{})
	o.WAL, o.Data = store, store
	if err := r.made.Write(ctx, o); err != nil {
		return nil, err
	}
	s, err := r.add(s)
	if err != nil {
		return nil, err
	}
	if s, err = r.drain(ctx, store, cluster, s, scratch); err != nil {
		return nil, err
	}
	for f, err := range stream.Check(ctx, stream.CheckOptions{
		Catalog: s, WAL: store, Data: store, Cluster: cluster,
	}) {
		if err == nil && f.Severity == stream.Damage {
			err = fmt.Errorf("the result does not agree with the bucket: %s", f)
		}
		if err != nil {
			return nil, err
		}
	}
	mark, err := putMark(ctx, store, cluster)
	if err != nil {
		return nil, err
	}
	s, results := s.Apply(s.Index()+1, meta.Entry{Node: r.node, NowMs: r.now.UnixMilli(), Commands: []meta.Command{mark}})
	return s, results[0].Err()
}

// drain recovers the logs of all nodes, with an engine over temporary metadata, which is gone when it returns.
func (r *streamRecovery) drain(
	ctx context.Context, store objstore.Store, cluster string, s *meta.State, scratch string,
) (drained *meta.State, err error) {
	var others []streamcatalog.NodeID
	needed := false
	for _, n := range r.made.Nodes {
		needed = needed || n.WALEpoch >= 0
		if n.WALEpoch >= 0 && n.ID != streamcatalog.NodeID(r.node) {
			others = append(others, n.ID)
		}
	}
	if !needed {
		return s, nil
	}
	if err := objstore.Probe(ctx, store); err != nil {
		return nil, err
	}
	if err := os.Remove(scratch); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := embedded.Restore(scratch, cluster, s.Index(), s.EncodeSnapshot()); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(scratch)) }()
	backend, err := embedded.Open(scratch, embedded.Options{ClusterID: cluster, Reserve: -1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	log, err := meta.Open(ctx, backend, meta.Options{Node: r.node})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := r.drainAll(ctx, store, log, cluster, others); err != nil {
		return nil, err
	}
	return log.View(), nil
}

// drainAll opens an engine, which recovers the node's own log, and takes over the others' logs.
func (r *streamRecovery) drainAll(
	ctx context.Context, store objstore.Store, log *meta.Log, cluster string, others []streamcatalog.NodeID,
) error {
	engine, err := stream.Open(ctx, stream.Options{
		Catalog: meta.NewCatalog(log), Node: streamcatalog.NodeID(r.node), Cluster: cluster, Slots: 1, WAL: store, Data: store,
		Proof: time.Now, Config: stream.DefaultConfig(), Events: r.events,
		Leads: func() bool { return false }, // nothing is removed
	})
	if err != nil {
		return fmt.Errorf("recovering the log of node %d: %w", r.node, err)
	}
	for _, other := range others {
		if failed := engine.Failover(ctx, other); failed != nil {
			err = cmp.Or(err, fmt.Errorf("recovering the log of node %d: %w", other, failed))
		}
	}
	return errors.Join(err, engine.Close(ctx))
}

// scratchFile is where a recovery of a data directory keeps unfinished metadata.
func scratchFile(dataDir string) string { return path.Join(dataDir, metaFile+".recover") }
