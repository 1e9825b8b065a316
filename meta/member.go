package meta

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// liveKeys begins the liveness keys of nodes; behind it comes the node's id.
const liveKeys = "live/"

// MemberOptions say who joins.
type MemberOptions struct {
	// Node is the node's id.
	Node int32
	// Address is where the node can be reached, Slots its weight when streams are placed, Build the version of its program.
	Address string
	Slots   uint32
	Build   string
	// Announce announces immediately what this build understands. Without it that is left until [Member.RaiseLevel], so
	// that an older build can still use the log of a single node.
	Announce bool
	// Tick is how often a member that does not hold the lease requests it, and one that lost its liveness key requests
	// that. The default is 2.5 s, a quarter of a key's time to live.
	Tick time.Duration
}

// Member is a process's place in the cluster: the liveness key of its node, and the node epoch that no earlier process has. It also
// asks for the metadata lease, and registers the process as the coordinator when it has it; a log of [LevelStreams] is raised to
// [LevelTables] for that as soon as every live node understands it.
// Methods are safe for concurrent use.
type Member struct {
	log *Log
	o   MemberOptions

	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
	lost   chan struct{} // closed when the place is lost

	mu          sync.Mutex
	incarnation [16]byte
	next        [16]byte // an incarnation of this process that is being registered
	epoch       int64
	claim       Claim
	proved      time.Time // by claims that were lost
	err         error     // why the place was lost

	// alive is who lived at the last look of the lease's holder, and epochs those of the nodes right before it.
	alive    map[int32]Live
	epochs   map[int32]int64
	lookedAt time.Time
}

// Live is what a node that is alive says about itself in its liveness key.
type Live struct {
	Node        int32  `json:"node"`
	Incarnation string `json:"incarnation"` // 32 hexadecimal digits
	Address     string `json:"address,omitempty"`
	Build       string `json:"build,omitempty"`
}

// TakenError says that another process lives under the node's id.
type TakenError struct {
	Node int32
	// By is the other process, as far as it could be read.
	By Live
}

// Error names the node and who has it.
func (e *TakenError) Error() string {
	return fmt.Sprintf("meta: node %d is in use by another process (incarnation %s at %q)", e.Node, e.By.Incarnation, e.By.Address)
}

// Unwrap returns [ErrClaimed].
func (e *TakenError) Unwrap() error { return ErrClaimed }

// FencedError says that another process has taken the node over.
type FencedError struct {
	Node        int32
	Epoch, Then int64 // ours, and the node's current one
}

// Error names both epochs.
func (e *FencedError) Error() string {
	return fmt.Sprintf("meta: node %d was taken over: it is at epoch %d, and this process has epoch %d", e.Node, e.Then, e.Epoch)
}

// Join takes a node's liveness key and registers the process under the node's next epoch. While another process holds
// the key it retries until ctx ends, since the key of a dead process takes a while to expire; then the error is a
// [*TakenError]. The caller closes the member before the log.
func Join(ctx context.Context, log *Log, o MemberOptions) (*Member, error) {
	if o.Tick <= 0 {
		o.Tick = 2500 * time.Millisecond
	}
	m := &Member{log: log, o: o, done: make(chan struct{}), lost: make(chan struct{})}
	_, _ = rand.Read(m.incarnation[:]) // never fails
	claim, err := m.takeKey(ctx, func() error { return nil })
	if err != nil {
		return nil, err
	}
	m.claim = claim
	if err := m.register(ctx, m.incarnation, -1); err != nil {
		claim.Release()
		return nil, err
	}
	if err := m.log.Lead(ctx); err != nil && !errors.Is(err, ErrClaimed) && !transient(err) {
		claim.Release()
		return nil, err
	}
	var life context.Context
	life, m.cancel = context.WithCancel(context.Background())
	go m.run(life)
	return m, nil
}

// register begins the epoch of an incarnation, and says what this build understands. expected is the node's epoch until then, -1
// for any: that is for who has just taken the liveness key.
func (m *Member) register(ctx context.Context, incarnation [16]byte, expected int64) error {
	m.mu.Lock()
	m.next = incarnation
	m.mu.Unlock()
	done, err := m.log.Do(ctx, RegisterNode{
		Node: m.o.Node, ExpectedEpoch: expected, Incarnation: incarnation, Address: m.o.Address, Slots: m.o.Slots,
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.incarnation, m.epoch = incarnation, int64(done.ID)
	m.mu.Unlock()
	if m.o.Announce || m.log.View().Level() > LevelTopics {
		return m.announce(ctx)
	}
	return nil
}

func (m *Member) announce(ctx context.Context) error {
	_, err := m.log.Do(ctx, AnnounceLevel{
		Node: m.o.Node, Incarnation: m.Incarnation(), Level: NewestLevel, Build: m.o.Build[:min(len(m.o.Build), MaxBuildBytes)],
	})
	return err
}

// takeKey takes the liveness key, and waits for it while another process has it, as long as useless returns nil.
func (m *Member) takeKey(ctx context.Context, useless func() error) (Claim, error) {
	key := liveKey(m.o.Node)
	incarnation := m.Incarnation()
	value, err := json.Marshal(Live{
		Node: m.o.Node, Incarnation: fmt.Sprintf("%x", incarnation), Address: m.o.Address, Build: m.o.Build,
	})
	if err != nil {
		return nil, err
	}
	for taken := false; ; {
		claim, err := m.log.backend.Claim(ctx, key, value)
		taken = taken || errors.Is(err, ErrClaimed)
		switch {
		case err == nil:
			return claim, nil
		case ctx.Err() == nil && !errors.Is(err, ErrClaimed) && !transient(err):
			return nil, err
		}
		if err := useless(); err != nil {
			return nil, err
		}
		if wait(ctx, m.o.Tick/10) == nil {
			continue
		}
		if taken {
			return nil, m.taken()
		}
		return nil, err
	}
}

// taken says who has the key, if it can be learned. The caller's context has ended.
func (m *Member) taken() error {
	ctx, cancel := context.WithTimeout(context.Background(), m.o.Tick)
	defer cancel()
	e := &TakenError{Node: m.o.Node, By: Live{Node: m.o.Node}}
	if live, err := m.log.Live(ctx); err == nil {
		if by, ok := live[m.o.Node]; ok {
			e.By = by
		}
	}
	return e
}

func liveKey(node int32) string { return liveKeys + strconv.Itoa(int(node)) }

// Live returns the nodes whose liveness keys are held now, by their ids. A node that is not listed may be
// considered dead.
func (l *Log) Live(ctx context.Context) (map[int32]Live, error) {
	claims, err := l.backend.Claims(ctx, liveKeys)
	if err != nil {
		return nil, err
	}
	live := make(map[int32]Live, len(claims))
	for key, value := range claims {
		id, err := strconv.ParseInt(strings.TrimPrefix(key, liveKeys), 10, 32)
		if err != nil {
			continue // no node's
		}
		says := Live{Node: int32(id)}
		_ = json.Unmarshal(value, &says) // what it says is for people
		live[int32(id)] = says
	}
	return live, nil
}

// Node is the node's id.
func (m *Member) Node() int32 { return m.o.Node }

// Epoch is the node's epoch, which commands of this process carry.
func (m *Member) Epoch() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// Incarnation distinguishes the process from others under the node's id.
func (m *Member) Incarnation() [16]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.incarnation
}

// Proved returns a moment at which the epoch was certainly current: the liveness key was held, and the log had no newer
// epoch (WAL-12). It does not wait. If the key is a lock on this machine it is the present.
func (m *Member) Proved() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.claim == nil || m.err != nil {
		return m.proved
	}
	return m.claim.Proved()
}

// Renew begins a new epoch of the node and returns it. Requests of this process under the old one are refused from then
// on. If another process has taken the node over it fails with [NodeEpochMismatch], whether or not [Member.Lost] has
// reported it yet.
func (m *Member) Renew(ctx context.Context) (epoch int64, err error) {
	if err := m.register(ctx, m.renewed(), m.Epoch()); err != nil {
		return 0, err
	}
	return m.Epoch(), nil
}

// renewed is the incarnation of the next epoch. It first takes over the epoch of a registration of this process whose outcome was
// not known, and turned out to be good. One of which that is still not known is asked for again: it may come true at any time, and
// under another incarnation it would look like another process.
func (m *Member) renewed() (incarnation [16]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row, known := m.log.View().Node(m.o.Node); known && row.Incarnation == m.next {
		m.incarnation, m.epoch = m.next, row.Epoch
	}
	if m.next != m.incarnation {
		return m.next
	}
	_, _ = rand.Read(incarnation[:]) // never fails
	return incarnation
}

// RaiseLevel admits commands up to a level into the log, if every live node understands them. [*LevelError] says which
// do not.
func (m *Member) RaiseLevel(ctx context.Context, level Level) error {
	if m.log.View().Level() >= level {
		return nil
	}
	if err := m.announce(ctx); err != nil {
		return err
	}
	live, err := m.log.Live(ctx)
	if err != nil {
		return err
	}
	nodes := slices.Sorted(maps.Keys(live))
	_, err = m.log.Do(ctx, RaiseLevel{Level: level, Nodes: nodes})
	if !errors.Is(err, LevelTooLow) {
		return err
	}
	e := &LevelError{Needs: level, Level: m.log.View().Level()}
	for _, n := range nodes {
		if l := m.log.View().nodeLevel(n); l < level {
			e.Behind = append(e.Behind, NodeLevel{Node: n, Level: l, Build: live[n].Build})
		}
	}
	return e
}

// Lost returns a channel that is closed when another process has taken the node over, or the log has stopped. [Member.Err]
// says which. An expired liveness key is reacquired and is no loss, as long as no other process took the node over.
func (m *Member) Lost() <-chan struct{} { return m.lost }

// Err returns why the membership was lost: a [*FencedError], or what stopped the log. It is nil until then.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// Close releases the liveness key. The node's epoch stays until the next process begins another.
func (m *Member) Close() {
	m.cancel()
	<-m.done
	m.mu.Lock()
	claim := m.claim
	m.claim = nil
	m.mu.Unlock()
	if claim != nil {
		claim.Release()
	}
}

// run keeps the key, asks for the lease, and looks for whoever takes the node over, until life ends or the place is lost.
func (m *Member) run(life context.Context) {
	defer close(m.done)
	err := m.keep(life)
	if life.Err() != nil {
		return
	}
	m.mu.Lock()
	if m.claim != nil {
		m.proved = m.claim.Proved()
	}
	m.err = err
	m.mu.Unlock()
	close(m.lost)
}

// keep returns why the place was lost.
func (m *Member) keep(life context.Context) error {
	_ = m.coordinate(life)           // if it fails, it is done at the next tick
	tick := time.NewTicker(m.o.Tick) // it continues through changes of the log: a busy one has many of them in a tick
	defer tick.Stop()
	for life.Err() == nil {
		changed := m.log.Changes()
		if err := m.fenced(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-tick.C:
			m.tend(life)
		case <-m.keyLost():
			if err := m.regain(life); err != nil {
				return err
			}
		case <-m.log.Done():
			return m.log.Err()
		case <-life.Done():
		}
	}
	return life.Err()
}

// tend asks for the lease, or looks who lives if this process holds it, and makes the holder the coordinator. What fails is done
// again at the next tick.
func (m *Member) tend(life context.Context) {
	had := m.log.lease.held()
	if !had && m.log.Lead(life) != nil {
		return
	}
	if _ = m.coordinate(life); !had {
		return
	}
	asked, epochs := m.log.o.Now(), map[int32]int64{}
	for node := range m.log.View().Nodes() {
		epochs[node.ID] = node.Epoch
	}
	alive, err := m.log.Live(life)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive, m.epochs, m.lookedAt = alive, epochs, asked
}

// Buried reports whether this node, which holds the lease, may consider another node dead: it had no liveness key at a
// check no older than two ticks, and no other process has registered it since. It does not wait. Actions based on it
// must be safe even if the node is alive after all.
func (m *Member) Buried(node int32) bool {
	if node == m.o.Node || !m.log.Leads() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, lives := m.alive[node]; lives || m.alive == nil || m.log.o.Now().Sub(m.lookedAt) > 2*m.o.Tick {
		return false
	}
	row, _ := m.log.View().Node(node)
	return row.Epoch == m.epochs[node] || row.Incarnation == m.incarnation // otherwise it has come back, or another takes it over
}

// gone is why there is no place left to keep: the log has stopped, or a [*FencedError].
func (m *Member) gone() error {
	if err := m.log.Err(); err != nil {
		return err
	}
	return m.fenced()
}

func (m *Member) keyLost() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claim.Lost()
}

// fenced returns a [*FencedError] if the log knows a newer epoch of the node.
func (m *Member) fenced() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, _ := m.log.View().Node(m.o.Node)
	if row.Epoch <= m.epoch || row.Incarnation == m.incarnation || row.Incarnation == m.next {
		return nil
	}
	return &FencedError{Node: m.o.Node, Epoch: m.epoch, Then: row.Epoch}
}

// regain takes the liveness key again after it was lost. Until the log is read to its head, since when nobody can have taken
// the node over without this process knowing, the new key proves nothing.
func (m *Member) regain(life context.Context) error {
	m.mu.Lock()
	m.proved, m.claim = m.claim.Proved(), nil
	m.mu.Unlock()
	claim, err := m.takeKey(life, m.gone) // whoever took the node over holds the key, maybe forever
	if err != nil {
		return err
	}
	if err = m.catchUp(life); err == nil {
		err = m.fenced()
	}
	if err != nil {
		claim.Release()
		return err
	}
	m.mu.Lock()
	m.claim = claim
	m.mu.Unlock()
	return nil
}

// catchUp waits until all that is in the log now is applied here.
func (m *Member) catchUp(life context.Context) error {
	for {
		head, err := m.log.backend.Head(life)
		if err == nil {
			_, err = m.log.WaitApplied(life, head)
		}
		if err == nil || !transient(err) {
			return err
		}
		if err := wait(life, m.o.Tick/10); err != nil {
			return err
		}
	}
}
