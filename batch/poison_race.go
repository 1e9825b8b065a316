//go:build race

package batch

// poison overwrites bytes that must not be used any more, so that a use shows.
func poison(b []byte) {
	if len(b) > 0 {
		b[0] = 0xdb
	}
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
