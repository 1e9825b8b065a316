package broker

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// memoryInUse is how many bytes of this process are memory (proc(5): the second number of statm, in pages).
func memoryInUse(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var all, resident int64
	_, err = fmt.Sscan(string(b), &all, &resident)
	require.NoError(t, err)
	return resident * int64(os.Getpagesize())
}

// Each of them declares as much as a request may have, sends a little and stops.
func TestTenThousandPeersThatDeclareAHundredMebibytesAndStopTakeWhatTheirConnectionsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const peers, sent, declared = 10_000, 5000, 100 << 20
		r := newRig(t)
		topic := r.topic("t", 1, nil)
		head := binary.BigEndian.AppendUint32(nil, declared)
		head = append(head, 0, 0, 0, 9, 0, 0, 0, 1)
		head = append(head, make([]byte, sent-len(head))...)
		before := memoryInUse(t)
		for range peers {
			nc := r.dialRaw()
			go func() { _, _ = nc.Write(head) }() // the server hangs up on those that stop while others wait
		}
		synctest.Wait()
		held, waiting := r.server.large.used()
		begun := r.server.large.capacity / firstShare
		require.Equal(t, begun*firstShare, held)
		require.Equal(t, int(peers-begun), waiting, "they hold nothing")
		grown := memoryInUse(t) - before
		t.Logf("%d peers, %d MiB declared: %d MiB of memory", peers, peers*declared>>20, grown>>20)
		require.Less(t, grown, int64(peers*(256<<10)), "20 KiB each is usual, five times that under the race detector")

		r.dial().mustProduce(topic, 0, records(strings.Repeat("x", 900_000)))
		r.stop()
	})
}

// A buffer comes with the pages of the request before, which are nobody's share.
func TestPeersThatAreSlowKeepNoMemoryThatWasFilledByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const peers, size = 20, 16 << 20
		r := newRig(t)
		frame := binary.BigEndian.AppendUint32(nil, size)
		frame = append(frame, 0, 0, 0, 9, 0, 0, 0, 1)
		frame = append(frame, make([]byte, size-len(frame)+4)...)
		before := memoryInUse(t)
		var slow []net.Conn
		for range peers {
			whole := r.dialRaw()
			_, err := whole.Write(frame)
			require.NoError(t, err)
			synctest.Wait() // its buffer is given back
			require.NoError(t, whole.Close())
			nc := r.dialRaw()
			_, err = nc.Write(frame[:20<<10])
			require.NoError(t, err)
			slow = append(slow, nc)
			synctest.Wait()
		}
		for range 8 {
			<-time.After(300 * time.Millisecond)
			for _, nc := range slow {
				_, err := nc.Write([]byte{0})
				require.NoError(t, err)
			}
		}
		synctest.Wait()
		grown := memoryInUse(t) - before
		t.Logf("%d slow peers: %d MiB of memory", peers, grown>>20)
		require.Less(t, grown, int64(peers*size/2))
		for _, nc := range slow {
			require.NoError(t, nc.Close())
		}
		r.stop()
	})
}
