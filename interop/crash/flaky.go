package crash

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
)

// errCut is what a client gets when its connection was cut here.
var errCut = errors.New("crash: the connection was cut")

// flaky dials connections that write in small pieces and break for good after some bytes, in the middle of whatever is in
// flight: a request that the server never sees whole, or an answer that the client never gets.
type flaky struct {
	least, most int64 // how many bytes a connection lives, both ways together

	mu     sync.Mutex
	rng    *rand.Rand
	cuts   int
	healed bool
}

func newFlaky(seed uint64, least, most int64) *flaky {
	return &flaky{least: least, most: most, rng: rand.New(rand.NewPCG(seed, 1))}
}

// dial is for [kgo.Dialer].
func (f *flaky) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.healed {
		return conn, nil
	}
	return &flakyConn{Conn: conn, flaky: f, left: f.least + f.rng.Int64N(f.most-f.least)}, nil
}

// heal makes connections dialled from now on last. Open ones still break when their time comes.
func (f *flaky) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healed = true
}

// count returns how many connections were cut.
func (f *flaky) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cuts
}

type flakyConn struct {
	net.Conn
	flaky *flaky

	mu   sync.Mutex
	left int64
}

// take uses up n bytes of the connection's life and reports how many of them are still delivered.
func (c *flakyConn) take(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	good := min(int64(n), c.left)
	c.left -= good
	return int(good)
}

func (c *flakyConn) cut() error {
	c.flaky.mu.Lock()
	c.flaky.cuts++
	c.flaky.mu.Unlock()
	c.Conn.Close()
	return errCut
}

func (c *flakyConn) Write(p []byte) (int, error) {
	const piece = 1000
	written := 0
	for written < len(p) {
		want := min(piece, len(p)-written)
		good := c.take(want)
		n, err := c.Conn.Write(p[written : written+good])
		written += n
		if err != nil {
			return written, err
		}
		if good < want {
			return written, c.cut()
		}
	}
	return written, nil
}

func (c *flakyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if good := c.take(n); good < n {
		return 0, c.cut()
	}
	return n, err
}
