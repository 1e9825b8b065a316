package twoprocess

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/stream"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// ordersVariable has the orders of a process that a test starts: the test's program again.
const ordersVariable = "TIDEMARK_TEST_TWOPROCESS"

// orders are what a process does: it joins as a node and, if another one is dead, waits for a line on its standard input and
// takes that node over once its liveness key is gone. It opens all streams, tells what it finds in them, and appends to all of
// them until its standard input ends or an append fails.
type orders struct {
	Place place
	Node  int32
	Dead  int32 // 0: none
	// Tag is part of all that it appends.
	Tag string
}

// report is a line that a process writes to its standard output.
type report struct {
	What   what
	Record record
	Sum    string // of the payload that was found
	End    ending
}

type what string

// What there is to report, in the order in which it comes.
const (
	joined what = "joined" // the node's engine is open
	found  what = "found"  // a record is in a stream
	opened what = "opened" // all streams are, and were read
	acked  what = "acked"  // an append was acknowledged
	ended  what = "ended"
)

// ending is how a process ended.
type ending struct {
	// Text is why, empty after an end on demand.
	Text string
	// Failed is how many appends failed, Refused how many of those errors match [stream.ErrWALFailed].
	Failed, Refused int
	// Fenced says that the engine's error matches [stream.ErrFenced], Overtaken that the member's is a [*meta.FencedError].
	Fenced, Overtaken bool
}

// worker is such a process.
type worker struct {
	orders
	lines chan struct{} // a value for each line of the standard input; closed at its end

	mu  sync.Mutex
	out *json.Encoder

	stop            atomic.Bool
	failed, refused atomic.Int64
}

// obey does what the orders say and returns the exit status.
func obey(text string) int {
	w := &worker{lines: make(chan struct{}), out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(text), &w.orders)
	go w.listen()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		err = w.work(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// listen reads the standard input.
func (w *worker) listen() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		w.lines <- struct{}{}
	}
	w.stop.Store(true)
	close(w.lines)
}

func (w *worker) say(r report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(r) // without a reader there is nobody to tell
}

func (w *worker) work(ctx context.Context) error {
	n, err := join(ctx, w.Place, w.Node)
	if err != nil {
		return err
	}
	w.say(report{What: joined})
	if w.Dead != 0 {
		<-w.lines
		if err := n.awaitDeath(ctx, w.Dead); err != nil {
			return err
		}
		if err := n.engine.Failover(ctx, catalog.NodeID(w.Dead)); err != nil {
			return err
		}
	}
	streams, err := n.openAll(ctx)
	if err != nil {
		return err
	}
	for _, s := range streams {
		if err := readAll(ctx, s, func(r stream.Record) { w.tellOf(s.ID(), r) }); err != nil {
			return err
		}
	}
	w.say(report{What: opened})
	var writers sync.WaitGroup
	for _, s := range streams {
		writers.Go(func() { w.appendTo(ctx, s) })
	}
	writers.Wait()
	return w.finish(ctx, n)
}

func (w *worker) tellOf(id catalog.StreamID, r stream.Record) {
	w.say(report{
		What:   found,
		Record: record{Stream: id, Base: r.Base, Count: r.Count, Size: len(r.Payload)}, Sum: sum(r.Payload),
	})
}

func sum(payload []byte) string { return fmt.Sprintf("%x", sha256.Sum256(payload)) }

// appendTo appends until it is to stop. After an append that failed it tries a few more, none of which may succeed.
func (w *worker) appendTo(ctx context.Context, s *stream.Stream) {
	for more := 3; more > 0 && !w.stop.Load(); {
		r := record{Stream: s.ID(), Base: s.Next(), Count: 1 + rand.Int32N(5), Size: 100 + rand.IntN(4000), Tag: w.Tag}
		_, err := s.Append(ctx, r.Count, r.payload())
		switch {
		case err == nil:
			w.say(report{What: acked, Record: r})
			continue
		case errors.Is(err, stream.ErrWALFailed):
			w.refused.Add(1)
		}
		w.failed.Add(1)
		more--
	}
}

// finish ends the node: cleanly after an end on demand, otherwise when the member has noticed the takeover too.
func (w *worker) finish(ctx context.Context, n *node) error {
	e := ending{Failed: int(w.failed.Load()), Refused: int(w.refused.Load())}
	if err := n.engine.Err(); err != nil {
		e.Text, e.Fenced = err.Error(), errors.Is(err, stream.ErrFenced)
		select {
		case <-n.member.Lost():
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
		var fenced *meta.FencedError
		e.Overtaken = errors.As(n.member.Err(), &fenced)
		_ = n.engine.Close(ctx) // it says again why it failed
	} else if err := n.engine.Close(ctx); err != nil {
		return err
	}
	w.say(report{What: ended, End: e})
	return n.leave()
}
