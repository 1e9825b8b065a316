//go:build !linux

package command

import "time"

// synchronized shows the clock: this system cannot be asked whether it is synchronized.
func synchronized(now time.Time) finding {
	return okay("clock", "%s", now.UTC().Format(time.RFC3339))
}
