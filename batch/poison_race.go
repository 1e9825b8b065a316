//go:build race

package batch

// poison overwrites bytes that nobody may look at any more, so that whoever does sees that they are wrong.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
