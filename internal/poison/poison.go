//go:build !race

// Package poison overwrites bytes that return to a pool, so that a later use of them shows. It does so in builds with the
// race detector, and costs nothing in others.
package poison

// On says whether [Fill] does anything.
const On = false

// Byte is a value unlikely to be written on purpose.
const Byte = 0xDB

// Fill overwrites bytes that must not be used any more.
func Fill([]byte) {}
