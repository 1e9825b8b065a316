package stream

import "time"

// maxGatherPause is how many groups go out without waiting after waiting has been in vain again and again.
const maxGatherPause = 128

// maxGatherWait bounds a wait: a PUT that took longer than twice as long was retried, and says nothing about the next
// one.
const maxGatherWait = 100 * time.Millisecond

// walGather has the next group of a log without an interval wait for those whose records have just become durable: callers
// that wait for each record append the next one then.
//
//	group n is stored    its callers are answered    as many have come as were there before, or half of a PUT's time is over
//	        |                        |                        |
//	        +------------------------+------------------------+--> group n + 1 goes out
//
// If it went out at once it would take those who came while group n was stored, and no more: callers would be two crowds,
// each of which waits while the group of the other is stored. Every append would take two PUTs, and there would be twice as
// many objects. Where callers do not come again so soon, because they are far away or have other things to do, waiting is in
// vain: then it is tried more and more seldom. A lone caller is never waited for.
type walGather struct {
	expected int       // how many records the open group waits for; 0 if it does not wait
	waiting  int       // how many of those were there when the wait began
	until    time.Time // when the wait is over
	// skip is how many groups go out without a wait from now on, pause how many did after the last wait in vain.
	skip, pause int
}

// begin notes that so many records are about to be answered for, while others wait in the open group. took is how long the
// group took to be stored.
func (g *walGather) begin(answered, waiting int, took time.Duration, now time.Time) {
	*g = walGather{skip: g.skip, pause: g.pause}
	switch {
	case answered == 0:
	case g.skip > 0:
		g.skip--
	default:
		g.expected, g.waiting, g.until = answered+waiting, waiting, now.Add(min(took/2, maxGatherWait))
	}
}

// end notes that the open group goes out with so many records.
func (g *walGather) end(records int) {
	if g.expected == 0 {
		return
	}
	came := records - g.waiting
	if came*2 >= g.expected-g.waiting {
		g.pause = 0
	} else {
		g.pause = min(max(2*g.pause, 1), maxGatherPause)
		g.skip = g.pause
	}
	g.expected = 0
}
