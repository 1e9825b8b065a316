package lazymem

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// mostSpace bounds the address space of a pool: out of the 128 TiB that every 64-bit Linux process has, enough for 40,000
// requests of 100 MiB.
const mostSpace = 4 << 40

// reservable returns how many bytes of address space a pool may have. A process with a limit (RLIMIT_AS) gets none,
// because the Go runtime dies when its share is taken. Nor does a 32-bit one.
func reservable() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &limit); err != nil {
		return 0
	}
	return spaceWithin(limit.Cur, strconv.IntSize)
}

func spaceWithin(limit uint64, bits int) int64 {
	if limit != math.MaxUint64 || bits < 64 {
		return 0
	}
	return mostSpace
}

// reserve maps n bytes of zeros that are not backed by memory yet. A huge page would be 2 MiB of memory for the first
// byte.
func reserve(n int) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // a kernel that was built without them has none to refrain from
	return memory, nil
}

// drop releases the pages behind the first n bytes.
func drop(memory []byte, n int) {
	page := os.Getpagesize()
	from := (n + page - 1) / page * page
	if from < len(memory) {
		_ = unix.Madvise(memory[from:], unix.MADV_DONTNEED) // on failure they stay, which is no worse than before
	}
}

// release unmaps the memory, if the process may have the number of mappings that leaves.
func release(memory []byte) error {
	err := unix.Munmap(memory)
	if err != nil && err != unix.ENOMEM {
		panic("lazymem: " + err.Error()) // the slice is not one that was mapped
	}
	return err
}
