//go:build race

// Package poison overwrites bytes that return to a pool, so that a later use of them shows. It does so in builds with the
// race detector, and costs nothing in others.
package poison

// On says whether [Fill] does anything.
const On = true

// Byte is a value unlikely to be written on purpose.
const Byte = 0xDB

// Fill overwrites bytes that must not be used any more.
func Fill(b []byte) {
	if len(b) > 0 {
		b[0] = Byte
	}
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
