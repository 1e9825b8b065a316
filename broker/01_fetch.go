package broker

import (
	"strings"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/partition"
)

// # Fetch (1): versions 4-18
//
// Returns whole batches as they are stored, starting with the one that holds the requested offset, partition after partition
// in the order of the request or of the session. Until one partition has returned data, the byte limits do not apply to the
// first batch, so that a batch larger than every limit can still be read (KIP-74). Reading stops at the high watermark, or at
// the last stable offset with isolation level 1; an offset between that and the log end is no error.
//
// The answer waits, for at most max wait, until min bytes are available, a partition fails or diverges, or the connection
// stops reading requests. Max wait counts from the arrival of the request and is never longer than
// Options.ConnectionsMaxIdle.
//
// A request of a replica is answered like a consumer's: there are no replicas. No preferred replica is ever named.
//
//	v5   log start offset
//	v7   fetch sessions; error of the whole response
//	v9   leader epochs
//	v11  rack; preferred replica
//	v12  flexible; last fetched epoch and diverging epoch
//	v13  topics by id
//	v15  replica state instead of replica id
//	v16  addresses of leaders with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
//	v18  high watermark of a replica
//
// Errors of the whole response: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
// Errors of a partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (also while the server
// stops), FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR. Never MESSAGE_TOO_LARGE
// and never REQUEST_TIMED_OUT, which consumers do not expect here.
func fetchAPI() api {
	return api{
		key: 1, name: "Fetch", min: 4, max: 18, served: 4, flexible: 12,
		shape: shape{
			fixed(4).until(14),                          // replica id
			fixed(4 + 4 + 4 + 1), fixed(4 + 4).since(7), // max wait, min bytes, max bytes, isolation; session id and epoch
			list(64, text().until(12), fixed(16).since(13), list(fetchPartitionSize,
				fixed(4), fixed(4).since(9), // index, leader epoch
				fixed(8), fixed(4).since(12), fixed(8).since(5), fixed(4))), // offset, last epoch, log start, max bytes
			list(64, text().until(12), fixed(16).since(13), listOf(4, fixed(4))).since(7), // forgotten
			text().since(11), // rack
		},
		handle: decodingAliased(kmsg.NewPtrFetchRequest, (*call).fetch),
	}
}

// noEpoch and the -1 of offsets stand for "unknown" on the wire.
const noEpoch int32 = -1

func (c *call) fetch(req *kmsg.FetchRequest) (answer, error) {
	iso, err := isolationOf(req.IsolationLevel)
	if err != nil {
		return nil, err
	}
	maxWait := min(time.Duration(max(req.MaxWaitMillis, 0))*time.Millisecond, c.server.options.ConnectionsMaxIdle)
	f := &fetchAnswer{
		version:     c.version,
		correlation: c.correlation,
		via:         c.conn.info.Via,
		details:     c.details,
		isolation:   iso,
		maxBytes:    int64(min(max(req.MaxBytes, 0), c.server.options.FetchMaxBytes)),
		deadline:    c.arrived.Add(maxWait),
		mayWait:     maxWait > 0,
	}
	f.minBytes = min(int64(req.MinBytes), f.maxBytes)
	if c.version < 7 {
		req.SessionID, req.SessionEpoch = 0, finalSessionEpoch
	}
	f.items, f.session, f.code = c.server.sessions.begin(req)
	if f.code == codeNone && f.session != nil {
		f.sessionID = f.session.id
		f.incremental = req.SessionEpoch > initialSessionEpoch
	}
	f.resolve(c.server)
	return f, nil
}

// byID reports whether topics are named by id.
func (f *fetchAnswer) byID() bool { return f.version >= 13 }

// resolve finds the logs. Names that alias the request are replaced by copies.
func (f *fetchAnswer) resolve(s *Server) {
	topics := s.backend.Topics()
	var last *Topic // items of a topic usually follow each other
	for i := range f.items {
		it := &f.items[i]
		if last == nil || f.byID() && last.ID != it.id || !f.byID() && last.Name != it.topic {
			last, it.err = topicRef{id: it.id, name: it.topic, byID: f.byID()}.find(topics)
		}
		if it.err != nil {
			it.topic = strings.Clone(it.topic)
			continue
		}
		it.topic = last.Name
		it.log, it.err = s.lead(last, it.index)
		if it.index >= 0 && int(it.index) < len(last.Partitions) {
			p := last.Partitions[it.index]
			it.leader, it.leaderEpoch = p.Leader, p.LeaderEpoch
		}
	}
}

// fetchItem is one partition of a fetch: what is requested and what was found.
type fetchItem struct {
	topic string  // name; empty when topics are named by id and the id is unknown
	id    TopicID // zero when topics are named by name
	index int32

	offset       int64
	maxBytes     int32
	currentEpoch int32 // leader epoch that the client knows, or -1
	lastEpoch    int32 // leader epoch of the last record that the client has, or -1

	cached *sessionPartition // nil without a session

	log         *partition.Log
	err         error // why there is no log
	leader      int32 // by the metadata
	leaderEpoch int32

	found fetched
}

// fetched is the answer for one partition.
type fetched struct {
	code          int16
	highWatermark int64
	lastStable    int64
	logStart      int64
	aborted       []partition.AbortedTxn
	records       partition.Records
	size          int64    // of records
	diverging     epochEnd // epoch -1: not diverging
	namesLeader   bool     // include the leader, because the client has the wrong one
}

// epochEnd is a leader epoch and the offset at which it ended.
type epochEnd struct {
	epoch int32
	end   int64
}

// fetchAnswer is the answer to a Fetch request. It reads the logs when its turn to be written comes.
type fetchAnswer struct {
	version     int16
	correlation int32
	via         Via
	details     *details
	isolation   partition.Isolation
	maxBytes    int64
	minBytes    int64
	deadline    time.Time
	mayWait     bool

	code        int16 // of the whole response
	sessionID   int32
	session     *fetchSession // nil: none
	incremental bool          // only what changed is answered
	items       []fetchItem
}

const (
	fetchItemSize      = int(unsafe.Sizeof(fetchItem{}))
	fetchPartitionSize = int(unsafe.Sizeof(kmsg.FetchRequestTopicPartition{})) + fetchItemSize +
		int(unsafe.Sizeof(sessionPartition{})) + 100 // for its entries in the session's index
)

func (f *fetchAnswer) weight() int { return len(f.items) * fetchItemSize }

func (f *fetchAnswer) write(w *answerWriter) error {
	defer f.release()
	ready := f.readAll()
	if !ready && f.mayWait && f.code == codeNone {
		f.park(w)
		f.release()
		f.readAll()
	}
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if f.details != nil {
		f.tellCodes()
	}
	if f.session != nil {
		f.session.finish(f)
	}
	return f.send(w)
}

// tellCodes keeps the first error code for the request's details.
func (f *fetchAnswer) tellCodes() {
	f.details.failed(f.code)
	for i := range f.items {
		f.details.failed(f.items[i].found.code)
	}
}
