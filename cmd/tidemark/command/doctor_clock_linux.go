package command

import (
	"time"

	"golang.org/x/sys/unix"
)

// synchronized asks the kernel whether something keeps the clock right.
func synchronized(now time.Time) finding {
	const unsynchronized = 0x40 // STA_UNSYNC
	shown := now.UTC().Format(time.RFC3339)
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return okay("clock", "%s; whether anything keeps it right cannot be asked", shown)
	}
	if t.Status&unsynchronized != 0 {
		return warn("clock", "%s; nothing keeps it right: run an NTP client", shown)
	}
	return okay("clock", "%s, kept right by NTP", shown)
}
