package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// loud are the lines above debug, without their level.
func (r *rig) loud() (lines []string) {
	for line := range strings.Lines(r.lines.String()) {
		if !strings.Contains(line, "level=DEBUG") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestF58_RetriesOfUploadsAreCountedAndToldNowAndThen(t *testing.T) {
	r := newRig()
	e := Streams(r.registry, r.log).Engine
	for try := range 3 {
		e.UploadRetried(stream.UploadRetriedEvent{Step: "write", Key: "data/1", Try: try + 1, Delay: time.Second, Err: errDisk})
	}
	e.UploadRetried(stream.UploadRetriedEvent{Step: "commit", Try: 1, Err: errDisk})
	e.PutRetried(stream.PutRetriedEvent{Key: "wal/1", Try: 1, Delay: time.Second, Err: errDisk})
	require.Equal(t, map[string]float64{
		`tidemark_stream_upload_retries_total{step="write"}`:  3,
		`tidemark_stream_upload_retries_total{step="commit"}`: 1,
		`tidemark_stream_wal_put_retries_total`:               1,
	}, r.samples(t))
	require.Equal(t, []string{
		`level=WARN msg="an upload of streams failed and is retried" step=write key=data/1 try=1 delay=1s error="input/output error" others=0`,
		`level=WARN msg="a log object of streams could not be stored; it is retried, and appends wait" key=wal/1 try=1 delay=1s error="input/output error" others=0`,
	}, r.loud())
}

func TestFencesAndFailuresOfStreamEnginesAreToldApart(t *testing.T) {
	r := newRig()
	e := Streams(r.registry, r.log).Engine
	e.Opened(stream.OpenedEvent{Node: catalog.Node{ID: 1, Epoch: 4}, Start: 64, Took: time.Second})
	e.Failed(stream.FailedEvent{Err: fmt.Errorf("%w: %w", stream.ErrWALFailed, stream.ErrFenced)})
	e.Failed(stream.FailedEvent{Err: fmt.Errorf("%w: %w", stream.ErrWALFailed, errDisk)})
	require.Equal(t, map[string]float64{
		`tidemark_stream_engine_starts_total`:                    1,
		`tidemark_stream_engine_failures_total{reason="fenced"}`: 1,
		`tidemark_stream_engine_failures_total{reason="failed"}`: 1,
	}, r.samples(t))
	require.Equal(t, []string{
		`level=INFO msg="the stream engine accepts appends" node=1 epoch=4 start=64 took=1s`,
		`level=ERROR msg="the stream engine accepts no more appends: another process has taken the node over" error="write-ahead log has failed: node has been taken over"`,
		`level=ERROR msg="the stream engine accepts no more appends until it is restarted" error="write-ahead log has failed: input/output error"`,
	}, r.loud())
}

func TestF78_LeftoversAreCountedUntilTheyAreGone(t *testing.T) {
	r := newRig()
	e := Streams(r.registry, r.log).Engine
	StreamsHeld(r.registry, func() StreamState {
		return StreamState{Streams: 2, Objects: 3, SetObjects: 4, Destroyed: 5, DeadLogs: 1, StoreCalls: 6, StoreWaiting: 7}
	})
	e.Cleaned(stream.CleanedEvent{Expired: 1, Deleted: 7, Failed: 2, Err: errDisk, Took: time.Second})
	e.WALDeleted(stream.WALDeletedEvent{Keys: []string{"a", "b"}, Trim: 9})
	e.WALDeleteFailed(stream.FailedEvent{Err: errDisk})
	require.Equal(t, map[string]float64{
		`tidemark_stream_streams`: 2, `tidemark_stream_objects`: 3, `tidemark_stream_set_objects`: 4,
		`tidemark_stream_objects_destroyed`: 5, `tidemark_stream_dead_logs`: 1,
		`tidemark_stream_store_calls`: 6, `tidemark_stream_store_calls_waiting`: 7,
		`tidemark_stream_prepared_expired_total`:       1,
		`tidemark_stream_objects_deleted_total`:        7,
		`tidemark_stream_object_delete_failures_total`: 2,
		`tidemark_stream_wal_objects_deleted_total`:    2,
		`tidemark_stream_wal_delete_failures_total`:    1,
	}, r.samples(t))
	require.Equal(t, []string{
		`level=WARN msg="destroyed objects of streams could not be deleted; it is retried" failed=2 deleted=7 error="input/output error"`,
		`level=WARN msg="log objects of streams could not be deleted; it is retried" error="input/output error"`,
	}, r.loud())
}

func TestU03_TakeOversOfDeadNodesAreTold(t *testing.T) {
	r := newRig()
	e := Streams(r.registry, r.log)
	e.TakeOver(TakeOverEvent{Node: 2, Took: time.Second, Try: 1, Err: errDisk})
	e.TakeOver(TakeOverEvent{Node: 2, Took: time.Second, Try: 2})
	e.Engine.Recovered(stream.RecoveredEvent{
		Node: catalog.Node{ID: 2, Epoch: 5}, Epoch: 4, To: 128, Objects: 1, Records: 3, Bytes: 30,
		Dropped: stream.Dropped{Trimmed: 1, Committed: 2}, Took: time.Second,
	})
	require.Equal(t, map[string]float64{
		`tidemark_stream_takeovers_total`:                                    1,
		`tidemark_stream_takeover_failures_total`:                            1,
		`tidemark_stream_recovery_duration_seconds`:                          1,
		`tidemark_stream_recovered_records_total`:                            3,
		`tidemark_stream_recovered_bytes_total`:                              30,
		`tidemark_stream_recovery_dropped_records_total{reason="trimmed"}`:   1,
		`tidemark_stream_recovery_dropped_records_total{reason="committed"}`: 2,
	}, r.samples(t))
	require.Len(t, r.loud(), 3)
}

func TestANodeThatCannotReachItsStoreTellsWhatItLeavesUndone(t *testing.T) {
	r := newRig()
	e := Streams(r.registry, r.log)
	e.TakeOver(TakeOverEvent{Node: 1, Own: true, Took: time.Second, Try: 3, Err: errDisk})
	e.LeaseLeft(LeaseLeftEvent{Err: errDisk, Failing: time.Minute, Pause: 2 * time.Minute})
	require.Equal(t, map[string]float64{
		`tidemark_stream_engine_start_failures_total`: 1,
		`tidemark_stream_lease_resignations_total`:    1,
	}, r.samples(t))
	require.Equal(t, []string{
		`level=WARN msg="the stream engine could not be started; it is retried" try=3 took=1s error="input/output error"`,
		`level=WARN msg="the object store cannot be reached: this node leaves the metadata lease to others, and requests it again later" failing=1m0s pause=2m0s error="input/output error"`,
	}, r.loud())
}

func TestU14_RequestsToTheStoreAreCountedByClassWithTheirBytes(t *testing.T) {
	r := newRig()
	e := ObjectStore(r.registry, r.log)
	e.Called(objstore.CalledEvent{Op: objstore.OpPutIfAbsent, Key: "k", Keys: 1, Sent: 10, Took: time.Second})
	e.Called(objstore.CalledEvent{Op: objstore.OpPutIfAbsent, Key: "k", Keys: 1, Err: objstore.ErrExists})
	e.Called(objstore.CalledEvent{Op: objstore.OpReadRange, Key: "k", Keys: 1, Received: 7})
	e.Called(objstore.CalledEvent{Op: objstore.OpDelete, Key: "k", Keys: 3})
	for range 2 {
		e.Called(objstore.CalledEvent{Op: objstore.OpList, Key: "p", Err: objstore.ErrDenied})
	}
	require.Equal(t, map[string]float64{
		`tidemark_objstore_requests_total{call="put-if-absent",class="write",result="ok"}`:     1,
		`tidemark_objstore_requests_total{call="put-if-absent",class="write",result="exists"}`: 1,
		`tidemark_objstore_requests_total{call="read",class="read",result="ok"}`:               1,
		`tidemark_objstore_requests_total{call="delete",class="delete",result="ok"}`:           1,
		`tidemark_objstore_requests_total{call="list",class="write",result="denied"}`:          2,
		`tidemark_objstore_request_duration_seconds{call="put-if-absent"}`:                     2,
		`tidemark_objstore_request_duration_seconds{call="read"}`:                              1,
		`tidemark_objstore_request_duration_seconds{call="delete"}`:                            1,
		`tidemark_objstore_request_duration_seconds{call="list"}`:                              2,
		`tidemark_objstore_sent_bytes_total{call="put-if-absent"}`:                             10,
		`tidemark_objstore_received_bytes_total{call="read"}`:                                  7,
		`tidemark_objstore_deletes_total`:                                                      3,
	}, r.samples(t))
	require.Equal(t, []string{
		`level=ERROR msg="the object store denies access" call=list key=p error="object store denied access" others=0`,
	}, r.loud())
}

func TestF15_ObjectsThatRecoveryKeepsAsideAreWarnedOf(t *testing.T) {
	r := newRig()
	e := Streams(r.registry, r.log)
	e.Engine.Recovered(stream.RecoveredEvent{Epoch: 3, To: 5})
	require.NotContains(t, r.lines.String(), "level=WARN")
	e.Engine.Recovered(stream.RecoveredEvent{Epoch: 3, To: 5, Dead: []string{"a/6", "a/7"}})
	require.Contains(t, r.lines.String(), "level=WARN")
	require.Contains(t, r.lines.String(), "first=a/6")
}
