package broker

import (
	"math/bits"
	"sync"

	"github.com/tidemark-io/tidemark/internal/poison"
)

// Buffers come in powers of two from 1 KiB to 8 MiB. A larger one is allocated for a single use.
const (
	smallestBufferBits = 10
	largestBufferBits  = 23
)

// buffers lends byte slices for response frames, and for request bodies where package lazymem does not work. The borrower
// returns a slice once, when nothing aliases it any more; it may be overwritten immediately.
type buffers struct {
	pools  [largestBufferBits - smallestBufferBits + 1]sync.Pool
	poison bool // in tests and race builds: overwrite what is returned, so that a use after it shows
}

// take returns a buffer of length n with arbitrary content.
func (p *buffers) take(n int) []byte {
	class := bufferClass(n)
	if class < 0 {
		return make([]byte, n)
	}
	if b, ok := p.pools[class].Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, n, 1<<(class+smallestBufferBits))
}

// give takes a buffer back. A buffer that has grown is kept under its new size; one that is larger than all classes is
// not kept: no take would ask for it, and each such request would keep one more alive until the collector has run twice.
func (p *buffers) give(b []byte) {
	b = b[:cap(b)]
	p.spoil(b)
	class := bits.Len(uint(len(b))) - 1 - smallestBufferBits // round down: a pool's buffers are at least its size
	if class < 0 || len(b) > 1<<largestBufferBits {
		return
	}
	p.pools[class].Put(&b)
}

// spoil overwrites returned memory, in tests.
func (p *buffers) spoil(b []byte) {
	if p.poison {
		for i := range b {
			b[i] = poison.Byte
		}
	}
}

// bufferClass is the smallest class that holds n bytes, or -1 when n is larger than all of them.
func bufferClass(n int) int {
	if n <= 1<<smallestBufferBits {
		return 0
	}
	class := bits.Len(uint(n-1)) - smallestBufferBits
	if class > largestBufferBits-smallestBufferBits {
		return -1
	}
	return class
}
