package faults

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/ledger"
	"github.com/tidemark-io/tidemark/interop/server"
)

// disk is one that can be filled to its last byte, and given some space again.
type disk struct {
	host *server.Server
	fill func()
	free func()
}

// spare is what is freed in the end, in bytes. The disk is twice as large.
const spare = 96 << 20

// mounted is a tmpfs with the real program on it, or why there is none.
func mounted(t *testing.T, args ...string) (disk, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", 2*spare)); err != nil {
		return disk{}, err
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	kept, crumbs := filepath.Join(dir, "kept"), filepath.Join(dir, "crumbs")
	require.NoError(t, os.WriteFile(kept, make([]byte, spare), 0o600))
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	return disk{
		host: process(t, server.TidemarkOptions{Dir: data, Args: args}),
		fill: func() { fillUp(t, crumbs) },
		free: func() {
			require.NoError(t, os.Remove(kept))
			require.NoError(t, os.Remove(crumbs))
		},
	}, nil
}

// fillUp writes to a file until not one byte more finds room.
func fillUp(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	for _, size := range []int{1 << 20, 4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	require.NoError(t, f.Close())
}

func TestAFullDiskRefusesWritersAndNobodyElse(t *testing.T) {
	for what, args := range map[string][]string{"with a reserve": nil, "without a reserve": {"--disk-reserve", "0"}} {
		t.Run(what, func(t *testing.T) {
			d, err := mounted(t, args...)
			if err != nil {
				t.Logf("a tmpfs cannot be mounted here: %v", err)
				inProcess(t)
				return
			}
			fullDisk(t, d)
		})
	}
}

// inProcess runs what package node has of the same: a node in the test's process, on a quota over the real files.
func inProcess(t *testing.T) {
	t.Helper()
	install, err := server.Located()
	require.NoError(t, err)
	test := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestF10_AFullDiskRefusesWritersAndNobodyElse$", "./node")
	test.Dir = install.Root()
	out, err := test.CombinedOutput()
	t.Logf("in process, on a quota over the real files:\n%s", out)
	require.NoError(t, err)
}

func fullDisk(t *testing.T, d disk) {
	h := d.host
	require.NoError(t, h.Start(within(t)))
	require.NoError(t, create(t, h, 1, "beside"))
	require.NoError(t, create(t, h, 1, "victim"))
	require.NoError(t, produce(t, h, "beside", 0, 1000))
	l, load := load(t, h)
	refusals := func() bool { return metric(t, h, "tidemark_partition_refused_batches_total") != "" }
	require.Eventually(t, refusals, patience, 10*time.Millisecond, "the load fills the disk")
	d.fill()

	for p := range int32(3) {
		require.ErrorIs(t, produce(t, h, "loaded", p, 100_000), kerr.KafkaStorageError)
	}
	err := create(t, h, 1, "more")
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	require.Regexp(t, "delete topics or records|too little space is left on the disk", err.Error())
	load.Pause()
	verify(t, h, l, "on the full disk")
	for p := range int32(3) {
		require.NoError(t, deleteMost(t, h, l, p), "records can be deleted to make room")
	}
	verify(t, h, l, "after records were deleted on the full disk")
	deleted, err := kadm.NewClient(client(t, h)).DeleteTopics(within(t), "victim")
	require.NoError(t, err)
	require.NoError(t, deleted.Error(), "a topic can be deleted to make room")
	identify(t, h, 3000)
	code, _ := get(t, h, "/healthz")
	require.Equal(t, http.StatusOK, code)
	code, _ = get(t, h, "/readyz")
	require.Equal(t, http.StatusOK, code, "readers are served")
	require.Regexp(t, "producers are refused|no space left", h.Output())

	require.NoError(t, h.Stop(within(t)), "the end is in order")
	require.NoError(t, h.Start(within(t)))
	// Logs are checked, for which nothing may be left: what cannot be opened says so, and is opened when there is room.
	_, body := get(t, h, "/readyz")
	ends, err := kadm.NewClient(client(t, h)).ListEndOffsets(within(t), "beside", "loaded")
	require.NoError(t, err)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			require.ErrorIs(t, o.Err, kerr.KafkaStorageError)
			require.Contains(t, body, fmt.Sprintf("%q", fmt.Sprint(o.Topic, "-", o.Partition)), "it is said which are not served")
		}
	})

	d.free()
	load.Resume()
	require.NoError(t, l.WaitAcks(within(t), l.Acks()+300))
	require.NoError(t, load.Stop(within(t)))
	verify(t, h, l, "after there was room again")
	for p := range int32(3) {
		require.NoError(t, produce(t, h, "loaded", p, 10), "partition %d is served without another start", p)
	}
	require.NoError(t, create(t, h, 1, "more"))
	_, body = get(t, h, "/readyz")
	require.NotContains(t, body, `"failed"`)
	ends, err = kadm.NewClient(client(t, h)).ListEndOffsets(within(t), "beside")
	require.NoError(t, err)
	beside, _ := ends.Lookup("beside", 0)
	require.Equal(t, int64(1), beside.Offset)
	require.NoError(t, h.Stop(within(t)))
}

// deleteMost deletes all records of a partition of the load but the newest.
func deleteMost(t *testing.T, h *server.Server, l *ledger.Ledger, partition int32) (err error) {
	t.Helper()
	admin := kadm.NewClient(client(t, h))
	ends, err := admin.ListEndOffsets(within(t), "loaded")
	require.NoError(t, err)
	end, _ := ends.Lookup("loaded", partition)
	l.Delete(partition, end.Offset-1, func() (int64, error) {
		below := kadm.Offsets{}
		below.AddOffset("loaded", partition, end.Offset-1, -1)
		var answers kadm.DeleteRecordsResponses
		answers, err = admin.DeleteRecords(within(t), below)
		answer, _ := answers.Lookup("loaded", partition)
		err = errors.Join(err, answer.Err)
		return answer.LowWatermark, err
	})
	return err
}

// identify asks for so many producer ids, for which the metadata log needs room now and then. The answer is an id, or that
// there is no room; whatever it is, the server goes on.
func identify(t *testing.T, h *server.Server, producers int) {
	t.Helper()
	c := client(t, h)
	for range producers {
		answer, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(within(t), c)
		require.NoError(t, err)
		require.Contains(t, []int16{0, kerr.KafkaStorageError.Code, kerr.CoordinatorNotAvailable.Code}, answer.ErrorCode)
	}
	require.NoError(t, h.Alive())
}
