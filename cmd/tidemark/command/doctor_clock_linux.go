package command

import (
	"time"

	"golang.org/x/sys/unix"
)

// synchronized asks the kernel whether the clock is synchronized.
func synchronized(now time.Time) finding {
	const unsynchronized = 0x40 // STA_UNSYNC
	shown := now.UTC().Format(time.RFC3339)
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return okay("clock", "%s; the kernel does not say whether it is synchronized", shown)
	}
	if t.Status&unsynchronized != 0 {
		return warn("clock", "%s; not synchronized: run an NTP client", shown)
	}
	return okay("clock", "%s, synchronized by NTP", shown)
}
