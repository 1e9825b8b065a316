package observe

import (
	"sync"
	"time"
)

// rare lets one message in each interval through, and counts those that it suppresses.
type rare struct {
	every time.Duration
	now   func() time.Time

	mu   sync.Mutex
	last time.Time
	held int
}

// allow reports whether to log now, and how many messages were suppressed since the last one.
func (r *rare) allow() (held int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if since := now.Sub(r.last); !r.last.IsZero() && since >= 0 && since < r.every {
		r.held++
		return 0, false
	}
	held, r.last, r.held = r.held, now, 0
	return held, true
}
