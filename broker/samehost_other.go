//go:build !linux

package broker

// setUnpaced does nothing: no other system lets a process choose, or paces by default.
func setUnpaced(uintptr) {}
