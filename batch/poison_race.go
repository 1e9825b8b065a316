//go:build race

package batch

// poison overwrites bytes that nobody may look at any more, so that whoever does sees that they are wrong.
func poison(b []byte) {
	if len(b) > 0 {
		b[0] = 0xdb
	}
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
