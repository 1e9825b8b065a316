package lazymem

import (
	"encoding/binary"
	"math"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// resident counts the pages of a buffer that are memory, as the kernel tells it (Documentation/admin-guide/mm/pagemap.rst:
// eight bytes a page, bit 63 is "present", bit 62 "swapped").
func resident(t *testing.T, b *Buffer) int {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer f.Close()
	page := os.Getpagesize()
	entries := make([]byte, 8*((len(b.memory)+page-1)/page))
	_, err = f.ReadAt(entries, 8*int64(addressOf(b)/uintptr(page)))
	require.NoError(t, err)
	n := 0
	for ; len(entries) > 0; entries = entries[8:] {
		if binary.LittleEndian.Uint64(entries)>>62 != 0 {
			n++
		}
	}
	return n
}

func addressOf(b *Buffer) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b.memory))) }

func newPool(t *testing.T, keep int64) *Pool {
	p := New(keep)
	t.Cleanup(p.Close)
	return p
}

func TestABufferTakesMemoryPageByPageAsItIsWritten(t *testing.T) {
	p := newPool(t, 0)
	b := p.Take(100 << 20)
	require.Len(t, b.Bytes(), 100<<20)
	require.Zero(t, resident(t, b))
	b.Bytes()[0] = 1
	require.Equal(t, 1, resident(t, b))
	b.Bytes()[50<<20] = 1
	require.Equal(t, 2, resident(t, b))
	b.Bytes()[100<<20-1] = 1
	require.Equal(t, 3, resident(t, b))
	p.Give(b)
}

func TestTenThousandBuffersOfAHundredMebibytesTakeNoMemory(t *testing.T) {
	p := newPool(t, 0)
	var lent []*Buffer
	for range 10_000 {
		b := p.Take(100 << 20)
		require.NotNil(t, b)
		lent = append(lent, b)
	}
	for _, b := range []*Buffer{lent[0], lent[5000], lent[9999]} {
		require.Zero(t, resident(t, b))
	}
	for _, b := range lent {
		p.Give(b)
	}
	require.Zero(t, p.reserved)
	require.Zero(t, p.mapped)
}

func TestPagesThatAreDroppedAreNoMemoryAnyMore(t *testing.T) {
	p := newPool(t, 0)
	b := p.Take(1 << 20)
	for i := range b.Bytes() {
		b.Bytes()[i] = 7
	}
	page := os.Getpagesize()
	require.Equal(t, 1<<20/page, resident(t, b))
	b.Drop(page + 1)
	require.Equal(t, 2, resident(t, b), "the page that the border is in stays")
	require.Equal(t, byte(7), b.Bytes()[page])
	require.Equal(t, byte(0), b.Bytes()[2*page])
	b.Bytes()[2*page] = 1
	require.Equal(t, 3, resident(t, b))
	b.Drop(1 << 20)
	require.Equal(t, 3, resident(t, b))
	p.Give(b)
}

func TestABufferThatIsGivenBackIsLentAgainWithItsPages(t *testing.T) {
	p := newPool(t, 1<<20)
	first := p.Take(20_000)
	require.Len(t, first.Bytes(), 20_000)
	first.Bytes()[0] = 1
	where := addressOf(first)
	p.Give(first)
	again := p.Take(32 << 10)
	require.Equal(t, where, addressOf(again))
	require.Len(t, again.Bytes(), 32<<10)
	require.Equal(t, 1, resident(t, again))
	other := p.Take(20_000)
	require.NotEqual(t, where, addressOf(other), "it is lent to one at a time")
	p.Give(other)
	p.Give(again)
}

func TestAKeptBufferServesWhateverIsNotMuchSmaller(t *testing.T) {
	p := newPool(t, 16<<20)
	first := p.Take(12 << 20)
	where := addressOf(first)
	p.Give(first)
	for _, n := range []int{1 << 20, 3 << 20, 12 << 20, 2 << 20} {
		b := p.Take(n)
		require.Equal(t, where, addressOf(b), "%d bytes", n)
		require.Len(t, b.Bytes(), n)
		p.Give(b)
	}
	require.Equal(t, 1, p.mapped)
	small := p.Take(8 << 10)
	require.NotEqual(t, where, addressOf(small), "a request of a few bytes does not hold as much as a thousand of them need")
	p.Give(small)
}

func TestWhatIsKeptIsCountedByTheMemoryItMayHave(t *testing.T) {
	p := newPool(t, 4<<20)
	one, other := p.Take(9<<20/8), p.Take(9<<20/8) // of 2 MiB each
	p.Give(one)
	p.Give(other)
	require.Equal(t, int64(9<<20/4), p.kept)
	require.Equal(t, 2, p.mapped)

	large := p.Take(2 << 20) // takes one of them
	p.Give(large)
	require.Equal(t, int64(9<<20/8+2<<20), p.kept, "its pages stay, whoever has it next")
	small := p.Take(1 << 20)
	p.Give(small)
	require.Equal(t, int64(9<<20/8+2<<20), p.kept)
	small = p.Take(1 << 20)
	small.Drop(4 << 10)
	p.Give(small)
	require.Equal(t, int64(9<<20/8+1<<20), p.kept)
}

func TestNoMoreIsKeptThanMayBe(t *testing.T) {
	p := newPool(t, 3<<20)
	var lent []*Buffer
	for range 5 {
		lent = append(lent, p.Take(1<<20))
	}
	lent = append(lent, p.Take(9<<20)) // of no class
	for _, b := range lent {
		p.Give(b)
	}
	require.Equal(t, int64(3<<20), p.kept)
	require.Equal(t, int64(3<<20), p.reserved)
	require.Equal(t, 3, p.mapped)
}

func TestWhatNobodyAsksForGoesBackToTheSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1 << 20)
		var lent []*Buffer
		for range 4 {
			lent = append(lent, p.Take(8<<10))
		}
		for _, b := range lent {
			p.Give(b)
		}
		wait := func() {
			<-time.After(keepFor)
			synctest.Wait()
		}
		mapped := func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.mapped
		}
		winding := func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.trimmer != nil
		}
		wait()
		require.Equal(t, 4, mapped(), "they were lent since the clock was wound")
		p.Give(p.Take(8 << 10))
		wait()
		require.Equal(t, 1, mapped(), "one at a time was asked for")
		p.Give(p.Take(8 << 10))
		wait()
		require.Equal(t, 1, mapped())
		wait()
		require.Zero(t, mapped())
		require.False(t, winding(), "nothing is left to wait for")

		p.Give(p.Take(8 << 10)) // and it begins anew
		require.True(t, winding())
		wait()
		wait()
		require.Zero(t, mapped())
		p.Close()
	})
}

func TestAClosedPoolKeepsNothing(t *testing.T) {
	p := New(1 << 20)
	p.Give(p.Take(100))
	lent := p.Take(9000)
	p.Close()
	lent.Bytes()[8999] = 1 // still the borrower's
	p.Give(lent)
	require.Zero(t, p.mapped)
	require.Zero(t, p.kept)
	p.Close()
}

func TestThereIsNoBufferBeyondTheLimits(t *testing.T) {
	p := newPool(t, 0)
	require.Nil(t, p.Take(math.MaxInt>>8), "more than the process may address")
	p.limits = limits{buffers: 2, space: 1 << 20}
	first, second := p.Take(8<<10), p.Take(8<<10)
	require.Nil(t, p.Take(8<<10), "a third")
	p.Give(first)
	require.Nil(t, p.Take(1<<20), "more address space than is left")
	first = p.Take(8 << 10)
	require.NotNil(t, first)
	p.Give(first)
	p.Give(second)
}

func TestAMappingThatTheSystemRefusesIsNotCounted(t *testing.T) {
	p := newPool(t, 0)
	p.space = math.MaxInt64
	require.Nil(t, p.Take(1<<60))
	require.Zero(t, p.mapped)
	require.Zero(t, p.reserved)
}

func TestAProcessWithLittleAddressSpaceReservesNone(t *testing.T) {
	require.Equal(t, int64(0), spaceWithin(1<<40, 64), "RLIMIT_AS is set")
	require.Equal(t, int64(0), spaceWithin(math.MaxUint64, 32))
	require.Equal(t, int64(mostSpace), spaceWithin(math.MaxUint64, 64))
	p := newPool(t, 1<<20)
	p.space = 0
	require.Nil(t, p.Take(1))
}

func TestTheClassOfABufferIsTheSmallestThatHoldsIt(t *testing.T) {
	for n, want := range map[int]int{
		1: 0, 8192: 0, 8193: 1, 16384: 1, 16385: 2, 1 << largestBits: classes - 1, 1<<largestBits + 1: -1,
	} {
		require.Equal(t, want, classOf(n), "%d bytes", n)
	}
}

func TestManyBorrowersNeverShareABuffer(t *testing.T) {
	p := newPool(t, 64<<10)
	var borrowers sync.WaitGroup
	for mark := range byte(8) {
		borrowers.Go(func() {
			for i := range 500 {
				b := p.Take(1 + (i*37)%20_000)
				for j := range b.Bytes() {
					b.Bytes()[j] = mark
				}
				for _, v := range b.Bytes() {
					if v != mark {
						t.Errorf("a byte of borrower %d is %d", mark, v)
						break
					}
				}
				p.Give(b)
			}
		})
	}
	borrowers.Wait()
	require.LessOrEqual(t, p.kept, int64(64<<10))
}

// BenchmarkTakeAndGive compares a buffer of 1 MiB that is lent again with one that is mapped, and filled, anew.
func BenchmarkTakeAndGive(b *testing.B) {
	for name, keep := range map[string]int64{"kept": 1 << 20, "mapped": 0} {
		b.Run(name, func(b *testing.B) {
			p := New(keep)
			defer p.Close()
			for b.Loop() {
				lent := p.Take(1 << 20)
				clear(lent.Bytes())
				p.Give(lent)
			}
		})
	}
}

// A process has only so many mappings (vm.max_map_count), and to take one out of the middle of its neighbours makes one more.
func TestABufferThatCannotBeUnmappedIsNoMemoryAndIsLentAgain(t *testing.T) {
	p := newPool(t, 0)
	full := true
	p.unmap = func(memory []byte) error {
		if full {
			return unix.ENOMEM
		}
		return release(memory)
	}
	write := func(b *Buffer) *Buffer {
		for i := range b.Bytes() {
			b.Bytes()[i] = 7
		}
		return b
	}
	large, small := write(p.Take(1<<20)), write(p.Take(1<<16))
	address := addressOf(large)
	p.Give(large)
	p.Give(small)
	require.Equal(t, 2, p.mapped)
	require.Len(t, p.stuck, 2)

	again := p.Take(1<<20 - 5)
	require.Equal(t, address, addressOf(again))
	require.Zero(t, resident(t, again), "the pages were given back")
	for range 100 {
		p.Give(write(again))
		again = p.Take(1 << 20)
	}
	require.Equal(t, 2, p.mapped, "nothing is mapped beside it")
	require.Equal(t, int64(1<<20+1<<16), p.reserved)

	full = false
	p.Give(again)
	require.Zero(t, p.mapped, "and the other one with it")
	require.Zero(t, p.reserved)
	require.Empty(t, p.stuck)
}
