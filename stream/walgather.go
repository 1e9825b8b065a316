package stream

import "time"

// maxGatherPause is how many groups go out without waiting after repeated waits in vain.
const maxGatherPause = 128

// maxGatherWait bounds a wait: a PUT that took longer than twice that was retried, and does not predict the next one.
const maxGatherWait = 100 * time.Millisecond

// walGather makes the next group of a log without an interval wait for callers whose records have just become durable:
// those that wait for each record append the next one then.
//
//	group n is stored    its callers are answered    as many have come as were there before, or half of a PUT's time is over
//	        |                        |                        |
//	        +------------------------+------------------------+--> group n + 1 goes out
//
// If the group went out at once it would only take the records that came while group n was stored: callers would form two
// crowds, each waiting while the other's group is stored. Every append would take two PUTs, and there would be twice as
// many objects. Where callers do not return that soon, because they are far away or busy, waiting is in vain, and is
// tried more and more rarely. A lone caller is never waited for.
type walGather struct {
	expected int       // how many records the open group waits for; 0 if it does not wait
	waiting  int       // how many of those were there when the wait began
	until    time.Time // when the wait is over
	// skip is how many groups go out without a wait from now on, pause how many did after the last wait in vain.
	skip, pause int
}

// begin records that this many records are about to be answered, while others wait in the open group. took is how long
// the group took to be stored.
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

// end records that the open group goes out with that many records.
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
