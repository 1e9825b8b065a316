//go:build race

// Package poison overwrites bytes that go back into a pool, so that whoever still looks at them sees that they are wrong. It
// does so in builds with the race detector, and costs nothing in others.
package poison

// On says whether [Fill] does anything.
const On = true

// Byte is what nobody writes on purpose.
const Byte = 0xDB

// Fill overwrites bytes that nobody may look at any more.
func Fill(b []byte) {
	if len(b) > 0 {
		b[0] = Byte
	}
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
