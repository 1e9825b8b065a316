package stream

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/objstore/mem"
	"github.com/tidemark-io/tidemark/stream/catalog"
	"github.com/tidemark-io/tidemark/stream/catalog/catalogtest"
)

// The model test of WAL-15. Real engines share a bucket and a catalog, and a scheduler decides, from a seed, in which order
// their calls take effect: it holds every call to the WAL bucket and every change of the catalog, and lets one go, loses its
// reply, fails it, repeats a put later, stops a process for a while or forever, begins another one or has a survivor take
// the node over, closes one cleanly, appends, uploads, and lets time pass. Listings have pages of one or two keys.
//
// In the end everything that is still held goes its way, and a last process reads the log:
//
//	every acknowledged row is in it once, at the offset that was acknowledged
//	no offset was acknowledged twice
//
// That holds too for rows that a process acknowledges only after the last one has taken over: it finds an object that it
// had stored before.
//
// STREAM_WAL_RUNS sets the number of runs, STREAM_WAL_SEED the first seed: a violation names the one to replay.
func TestWAL15_NothingAcknowledgedIsLostOrDoubledWhateverTheOrder(t *testing.T) {
	seed := envNumber("STREAM_WAL_SEED", uint64(time.Now().UnixNano()))
	var acked, opened, takenOver, closed int
	for i := range envNumber("STREAM_WAL_RUNS", 1500) {
		w := runWALModel(t, seed+i, walModel{})
		require.Empty(t, w.violations, "STREAM_WAL_SEED=%d STREAM_WAL_RUNS=1", seed+i)
		acked += len(w.acknowledged)
		opened, takenOver, closed = opened+w.opened, takenOver+w.takenOver, closed+w.closed
	}
	t.Logf("%d rows acknowledged, %d engines opened, %d taken over by another node, %d closed cleanly",
		acked, opened, takenOver, closed)
	require.NotZero(t, acked)
}

// TestWAL15_TheModelFindsWhatIsMissing switches a guard off, and wants the model to find that out.
func TestWAL15_TheModelFindsWhatIsMissing(t *testing.T) {
	for name, model := range map[string]walModel{
		"fences are not stored":           {noFences: true},
		"puts replace what is there":      {plainPuts: true},
		"objects are deleted untrimmed":   {loseObjects: true},
		"the age of proofs is not looked": {oldFences: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3000) {
				if w := runWALModel(t, seed, model); len(w.violations) > 0 {
					t.Logf("seed %d: %s", seed, w.violations[0])
					return
				}
			}
			t.Error("3000 runs found nothing")
		})
	}
}

func envNumber(name string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}

// walModel says which guards are off.
type walModel struct {
	noFences    bool // a fence's put is answered and not done
	plainPuts   bool // a put replaces the object that has the key
	loseObjects bool // a process deletes an object of its own now and then
	oldFences   bool // fences are removed while writers sleep that do not look at their proof's age
}

// walWorld is one run.
type walWorld struct {
	model   walModel
	random  *rand.Rand
	blocks  int // of how many streams a block of the log cache is: with one, each row is uploaded by itself
	wal     *mem.Bucket
	data    *mem.Bucket
	catalog *catalogtest.Memory
	streams []catalog.StreamID

	mu      sync.Mutex
	held    []*heldCall
	zombies []func() // puts that may take effect once more

	actors       []*walActor
	rows         int // that were submitted
	acknowledged map[string]int64
	violations   []string
	opened       int
	takenOver    int
	closed       int
}

// heldCall is a call that waits for the scheduler.
type heldCall struct {
	actor *walActor
	name  string
	fate  chan callFate
}

// callFate is what the scheduler does with a call.
type callFate struct {
	kind fateKind
	dice uint64 // what else is left to chance
}

type fateKind int

const (
	goes fateKind = iota
	fails
	losesReply
	dies
)

// walActor is a process.
type walActor struct {
	world  *walWorld
	number int
	node   catalog.NodeID
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	engine  *Engine
	streams []*Stream
	paused  bool
	dead    bool
	proof   time.Time
	acks    []*Ack
	busy    sync.WaitGroup
}

func runWALModel(t *testing.T, seed uint64, model walModel) *walWorld {
	w := &walWorld{model: model, random: rand.New(rand.NewPCG(seed, 15)), acknowledged: map[string]int64{}}
	synctest.Test(t, func(t *testing.T) {
		w.blocks = []int{1, 2, 1000}[w.random.IntN(3)]
		w.wal, w.data = mem.NewBucket(time.Now), mem.NewBucket(time.Now)
		w.catalog = catalogtest.NewMemory(time.Now)
		w.begin(t)
		for range 60 + w.random.IntN(200) {
			w.step()
		}
		w.finish(t)
	})
	return w
}

// begin makes the streams.
func (w *walWorld) begin(t *testing.T) {
	epoch, err := w.catalog.RegisterNode(t.Context(), catalog.Registration{ID: 9, Expected: -1, Incarnation: [16]byte{9}})
	require.NoError(t, err)
	first, err := w.catalog.CreateStreams(t.Context(), catalog.Node{ID: 9, Epoch: epoch}, 2)
	require.NoError(t, err)
	w.streams = []catalog.StreamID{first, first + 1}
	epoch, err = w.catalog.RegisterNode(t.Context(), catalog.Registration{ID: 5, Expected: -1, Incarnation: [16]byte{5}})
	require.NoError(t, err)
	start := []int64{0, 8, 13}[w.random.IntN(3)] * Window // keys are not listed in the order of their windows
	require.NoError(t, w.catalog.CloseWAL(t.Context(), catalog.Node{ID: 5, Epoch: epoch}, start))
	w.startOpener()
}

func (w *walWorld) config() Config {
	c := engineConfig()
	c.WALBatchInterval = time.Millisecond
	c.WALTrimPersist = 5 * time.Millisecond
	c.WALMaxPutAge = time.Minute
	c.WALFenceRetention = 10 * time.Minute
	c.CacheMaxStreams = w.blocks
	if w.model.oldFences {
		c.WALMaxPutAge = 1000 * time.Hour
		c.WALFenceRetention = 10_000 * time.Hour
	}
	return c
}

// step does one thing.
func (w *walWorld) step() {
	synctest.Wait()
	switch n := w.random.IntN(100); {
	case n < 48:
		for range 1 + w.random.IntN(5) {
			w.release(goes)
			synctest.Wait()
		}
	case n < 52:
		w.release(fails)
	case n < 56:
		w.release(losesReply)
	case n < 74:
		w.append()
	case n < 79:
		w.upload()
	case n < 81:
		w.zombie()
	case n < 84:
		w.pauseOrResume()
	case n < 86:
		w.kill()
	case n < 88:
		w.closeOne()
	case n < 91:
		w.startOpener()
	case n < 93:
		w.startFailover()
	case n < 94:
		w.refreshProofs()
	default:
		w.pass()
	}
	if w.model.loseObjects && w.random.IntN(40) == 0 {
		w.loseObject()
	}
	if w.model.oldFences && w.random.IntN(20) == 0 {
		w.removeFences()
	}
}

// release lets a random call of a process that is not stopped go.
func (w *walWorld) release(kind fateKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.held, func(a, b *heldCall) int { // so that a seed says which one it is
		return cmp.Or(cmp.Compare(a.actor.number, b.actor.number), cmp.Compare(a.name, b.name))
	})
	var ready []int
	for i, h := range w.held {
		if !h.actor.isPaused() {
			ready = append(ready, i)
		}
	}
	if len(ready) > 0 {
		w.decideLocked(ready[w.random.IntN(len(ready))], kind)
	}
}

func (w *walWorld) decideLocked(i int, kind fateKind) {
	w.held[i].fate <- callFate{kind, w.random.Uint64()}
	w.held = slices.Delete(w.held, i, i+1)
}

// hold has a call wait for its fate.
func (a *walActor) hold(ctx context.Context, name string) (callFate, error) {
	h := &heldCall{actor: a, name: name, fate: make(chan callFate, 1)}
	w := a.world
	w.mu.Lock()
	if a.isDead() {
		w.mu.Unlock()
		return callFate{}, errGone
	}
	w.held = append(w.held, h)
	w.mu.Unlock()
	select {
	case fate := <-h.fate:
		if fate.kind == dies {
			return fate, errGone
		}
		return fate, nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held = slices.DeleteFunc(w.held, func(other *heldCall) bool { return other == h })
		return callFate{}, ctx.Err()
	}
}

// call makes a call the way the scheduler wants it.
func (a *walActor) call(ctx context.Context, name string, unknown error, do func(dice uint64) error) error {
	fate, err := a.hold(ctx, name)
	switch {
	case err != nil:
		return err
	case fate.kind == fails:
		return unknown
	}
	if err := do(fate.dice); err != nil || fate.kind == goes {
		return err
	}
	return unknown
}

func (a *walActor) isPaused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.paused
}

func (a *walActor) isDead() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dead
}

// newActor is a process that was not opened yet.
func (w *walWorld) newActor(node catalog.NodeID) *walActor {
	a := &walActor{world: w, number: len(w.actors), node: node, proof: time.Now()}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	w.actors = append(w.actors, a)
	return a
}

func (a *walActor) options() Options {
	return Options{
		Catalog: &modelCatalog{Catalog: a.world.catalog, actor: a}, Node: a.node, Cluster: "tm-1", Slots: 1,
		WAL: &modelStore{Store: a.world.wal.Open(), actor: a}, Data: a.world.data.Open(),
		Proof: func() time.Time {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.proof
		},
		Config: a.world.config(),
	}
}

// startOpener begins a process of the node, unless there are many.
func (w *walWorld) startOpener() {
	if w.living() >= 4 {
		return
	}
	a := w.newActor(5)
	a.busy.Go(func() {
		e, err := Open(a.ctx, a.options())
		if err != nil {
			return
		}
		w.count(&w.opened)
		a.mu.Lock()
		a.engine = e
		a.mu.Unlock()
		for _, id := range w.streams {
			row, _ := w.catalog.View().Stream(id)
			s, err := e.OpenStream(a.ctx, id, row.Epoch+1)
			if err != nil {
				return
			}
			a.mu.Lock()
			a.streams = append(a.streams, s)
			a.mu.Unlock()
		}
	})
}

// startFailover has another node take the node over.
func (w *walWorld) startFailover() {
	if w.living() >= 4 {
		return
	}
	a := w.newActor(catalog.NodeID(1 + len(w.actors)*10))
	a.busy.Go(func() {
		e, err := Open(a.ctx, a.options())
		if err != nil {
			return
		}
		a.mu.Lock()
		a.engine = e
		a.mu.Unlock()
		if e.Failover(a.ctx, 5) == nil {
			w.count(&w.takenOver)
		}
	})
}

func (w *walWorld) living() int {
	n := 0
	for _, a := range w.actors {
		if !a.isDead() {
			n++
		}
	}
	return n
}

// some is a random process with an open stream.
func (w *walWorld) some() (*walActor, *Stream) {
	var all []*walActor
	for _, a := range w.actors {
		if a.isDead() {
			continue
		}
		a.mu.Lock()
		if len(a.streams) > 0 {
			all = append(all, a)
		}
		a.mu.Unlock()
	}
	if len(all) == 0 {
		return nil, nil
	}
	a := all[w.random.IntN(len(all))]
	a.mu.Lock()
	defer a.mu.Unlock()
	return a, a.streams[w.random.IntN(len(a.streams))]
}

// append submits one to three rows.
func (w *walWorld) append() {
	a, s := w.some()
	if s == nil {
		return
	}
	for range 1 + w.random.IntN(3) {
		admission, err := a.engine.TryAdmit(1, 20)
		if err != nil {
			return
		}
		w.rows++
		ack, err := s.Submit(admission, 1, fmt.Appendf(nil, "%d of %d", w.rows, s.ID()))
		admission.Release()
		if err == nil {
			a.acks = append(a.acks, ack)
		}
	}
}

func (w *walWorld) upload() {
	if a, _ := w.some(); a != nil {
		a.busy.Go(func() { _ = a.engine.Upload(a.ctx) })
	}
}

// zombie lets a put take effect that was made long ago, as a network may.
func (w *walWorld) zombie() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.zombies); n > 0 {
		i := w.random.IntN(n)
		w.zombies[i]()
		w.zombies = slices.Delete(w.zombies, i, i+1)
	}
}

func (w *walWorld) pauseOrResume() {
	a := w.actors[w.random.IntN(len(w.actors))]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = !a.paused
}

// kill ends a process: its calls never take effect, or much later as zombies.
func (w *walWorld) kill() {
	w.end(w.actors[w.random.IntN(len(w.actors))])
}

func (w *walWorld) end(a *walActor) {
	a.mu.Lock()
	a.dead = true
	a.mu.Unlock()
	w.mu.Lock()
	w.held = slices.DeleteFunc(w.held, func(h *heldCall) bool {
		if h.actor == a {
			h.fate <- callFate{kind: dies}
		}
		return h.actor == a
	})
	w.mu.Unlock()
	a.cancel()
	a.busy.Wait()
	if a.engine != nil {
		_ = a.engine.Close(a.ctx)
	}
	w.note(a)
}

// closeOne begins to close a process cleanly.
func (w *walWorld) closeOne() {
	if a, _ := w.some(); a != nil {
		a.mu.Lock()
		a.streams = nil
		a.mu.Unlock()
		a.busy.Go(func() {
			if a.engine.Close(a.ctx) == nil {
				w.count(&w.closed)
			}
		})
	}
}

func (w *walWorld) count(n *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*n++
}

// refreshProofs has those processes know that they are current that are.
func (w *walWorld) refreshProofs() {
	state, _ := w.catalog.View().Node(5)
	for _, a := range w.actors {
		a.mu.Lock()
		if a.engine != nil && (a.node != 5 || a.engine.Node().Epoch == state.Epoch) {
			a.proof = time.Now()
		}
		a.mu.Unlock()
	}
}

// pass lets time pass: a batch interval, a retry, or more than a proof may be old, or a fence.
func (w *walWorld) pass() {
	d := []time.Duration{
		time.Millisecond, time.Millisecond, 10 * time.Millisecond, 2 * time.Second, 3 * time.Second, 70 * time.Second, 11 * time.Minute,
	}[w.random.IntN(7)]
	if d < time.Minute {
		w.refreshProofs()
	}
	<-time.After(d)
	synctest.Wait()
	w.refreshProofs()
}

// finish has the last process take over while others sleep, then lets everything go, and reads the log.
func (w *walWorld) finish(t *testing.T) {
	for _, a := range w.actors {
		w.note(a)
	}
	last := w.newActor(5)
	e, err := w.openLast(last)
	if err != nil {
		w.violate("the last open: %v", err)
	} else {
		w.letAllGo()
		for _, a := range w.actors {
			w.note(a)
		}
		w.check(t)
		last.engine = e
	}
	for _, a := range w.actors {
		w.end(a)
	}
}

// openLast opens the last process with everybody else asleep: its own calls all go.
func (w *walWorld) openLast(a *walActor) (*Engine, error) {
	for _, other := range w.actors {
		other.mu.Lock()
		other.paused = other != a
		other.mu.Unlock()
	}
	var e *Engine
	opened := make(chan error, 1)
	a.busy.Go(func() {
		var err error
		e, err = Open(a.ctx, a.options())
		opened <- err
	})
	for {
		synctest.Wait()
		select {
		case err := <-opened:
			return e, err
		default:
		}
		if !w.releaseOf(a) {
			<-time.After(time.Second) // it waits before it looks again
		}
	}
}

// releaseOf lets the oldest call of a process go.
func (w *walWorld) releaseOf(a *walActor) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.held, func(h *heldCall) bool { return h.actor == a })
	if i < 0 {
		return false
	}
	w.decideLocked(i, goes)
	return true
}

// letAllGo wakes everybody, and lets the calls and the zombies go in random order until nothing is left to do.
func (w *walWorld) letAllGo() {
	for _, a := range w.actors {
		a.mu.Lock()
		a.paused = false
		a.mu.Unlock()
	}
	for range 300 {
		synctest.Wait()
		w.zombie()
		w.release(goes)
	}
	<-time.After(2 * time.Second)
	for range 300 {
		synctest.Wait()
		w.release(goes)
	}
}

// note gathers what a process acknowledged.
func (w *walWorld) note(a *walActor) {
	synctest.Wait()
	var open []*Ack
	for _, ack := range a.acks {
		select {
		case <-ack.Done():
			if ack.Err() == nil {
				w.noteAck(ack)
			}
		default:
			open = append(open, ack)
		}
	}
	a.acks = open
}

func (w *walWorld) noteAck(ack *Ack) {
	row := string(ack.record.Payload)
	for other, base := range w.acknowledged {
		if base == ack.Base() && strings.HasSuffix(other, fmt.Sprintf(" of %d", ack.record.Stream)) {
			w.violate("offset %d was acknowledged twice: %q and %q", base, other, row)
		}
	}
	w.acknowledged[row] = ack.Base()
}

func (w *walWorld) violate(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// check reads what is committed.
func (w *walWorld) check(t *testing.T) {
	view, found := w.catalog.View(), map[string]int64{}
	for _, err := range catalog.Check(view) {
		w.violate("the catalog: %v", err)
	}
	for _, id := range w.streams {
		row, _ := view.Stream(id)
		for _, o := range view.Objects(id, row.Start, row.End, 1<<20) {
			key := DataKey(DefaultNamespace, o.Object)
			data, err := w.data.Open().Get(t.Context(), key)
			require.NoError(t, err)
			_, records, err := DecodeObject(key, data)
			require.NoError(t, err)
			for _, r := range records {
				if r.Stream != id {
					continue
				}
				if _, twice := found[string(r.Payload)]; twice {
					w.violate("row %q is in the log twice", r.Payload)
				}
				found[string(r.Payload)] = r.Base
			}
		}
	}
	for row, base := range w.acknowledged {
		if at, ok := found[row]; !ok || at != base {
			w.violate("row %q was acknowledged at %d, the log has it: %v, at %d", row, base, ok, at)
		}
	}
}

// loseObject removes an object of the WAL that nothing covers.
func (w *walWorld) loseObject() {
	store := w.wal.Open()
	page, err := store.List(context.Background(), objstore.ListRequest{})
	if err == nil && len(page.Objects) > 0 {
		_ = store.Delete(context.Background(), page.Objects[w.random.IntN(len(page.Objects))].Key)
	}
}

// removeFences removes all fences, as if they were old.
func (w *walWorld) removeFences() {
	store := w.wal.Open()
	page, err := store.List(context.Background(), objstore.ListRequest{})
	if err != nil {
		return
	}
	for _, o := range page.Objects {
		data, err := store.Get(context.Background(), o.Key)
		if err == nil && isFence(o.Key, data) {
			_ = store.Delete(context.Background(), o.Key)
		}
	}
}

func isFence(key string, data []byte) bool {
	h, err := DecodeWALHeader(key, int64(len(data)), data)
	if err != nil {
		return false
	}
	parsed, err := WALPrefix{Cluster: "tm-1", Node: h.Node}.Parse(key)
	return err == nil && h.Epoch > parsed.Epoch
}

// modelStore is a process's way to the WAL bucket.
type modelStore struct {
	objstore.Store
	actor *walActor
}

func (s *modelStore) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	w := s.actor.world
	put := func() error {
		switch {
		case w.model.noFences && isFence(key, data):
			return nil
		case w.model.plainPuts:
			return s.Store.Put(context.Background(), key, data)
		}
		return s.Store.PutIfAbsent(context.Background(), key, data)
	}
	return s.actor.call(ctx, "put "+key, objstore.ErrTransient, func(dice uint64) error {
		err := put()
		if dice%8 == 0 { // the network repeats it later
			w.mu.Lock()
			defer w.mu.Unlock()
			w.zombies = append(w.zombies, func() { _ = put() })
		}
		return err
	})
}

func (s *modelStore) Get(ctx context.Context, key string) (data []byte, err error) {
	err = s.actor.call(ctx, "get "+key, objstore.ErrTransient, func(uint64) error { data, err = s.Store.Get(ctx, key); return err })
	return data, err
}

func (s *modelStore) ReadRange(ctx context.Context, key string, p []byte, off int64) error {
	return s.actor.call(ctx, "read "+key, objstore.ErrTransient, func(uint64) error { return s.Store.ReadRange(ctx, key, p, off) })
}

func (s *modelStore) Head(ctx context.Context, key string) (info objstore.Info, err error) {
	err = s.actor.call(ctx, "head "+key, objstore.ErrTransient, func(uint64) error { info, err = s.Store.Head(ctx, key); return err })
	return info, err
}

func (s *modelStore) List(ctx context.Context, r objstore.ListRequest) (page objstore.Page, err error) {
	r.Limit = 2
	err = s.actor.call(ctx, "list "+r.Prefix+r.Token, objstore.ErrTransient, func(uint64) error { page, err = s.Store.List(ctx, r); return err })
	return page, err
}

// Delete removes a random part of what it was asked to remove when its reply is lost.
func (s *modelStore) Delete(ctx context.Context, keys ...string) error {
	fate, err := s.actor.hold(ctx, "delete "+keys[0])
	if err != nil {
		return err
	}
	if fate.kind == goes {
		return s.Store.Delete(ctx, keys...)
	}
	for i, key := range keys {
		if fate.dice>>(i%64)&1 == 0 {
			_ = s.Store.Delete(context.Background(), key)
		}
	}
	return objstore.ErrTransient
}

// modelCatalog is a process's way to the catalog.
type modelCatalog struct {
	catalog.Catalog
	actor *walActor
}

func (m *modelCatalog) change(ctx context.Context, name string, do func() error) error {
	return m.actor.call(ctx, name, catalog.ErrUnavailable, func(uint64) error { return do() })
}

func (m *modelCatalog) RegisterNode(ctx context.Context, r catalog.Registration) (epoch int64, err error) {
	err = m.change(ctx, "register", func() error { epoch, err = m.Catalog.RegisterNode(ctx, r); return err })
	return epoch, err
}

func (m *modelCatalog) OpenWAL(ctx context.Context, n catalog.Node, start int64) error {
	return m.change(ctx, "open WAL", func() error { return m.Catalog.OpenWAL(ctx, n, start) })
}

func (m *modelCatalog) CloseWAL(ctx context.Context, n catalog.Node, start int64) error {
	return m.change(ctx, "close WAL", func() error { return m.Catalog.CloseWAL(ctx, n, start) })
}

func (m *modelCatalog) OpenStream(
	ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64,
) (row catalog.Stream, err error) {
	err = m.change(ctx, "open", func() error { row, err = m.Catalog.OpenStream(ctx, n, s, epoch); return err })
	return row, err
}

func (m *modelCatalog) CloseStream(ctx context.Context, n catalog.Node, s catalog.StreamID, epoch int64) error {
	return m.change(ctx, "close", func() error { return m.Catalog.CloseStream(ctx, n, s, epoch) })
}

func (m *modelCatalog) PrepareObjects(
	ctx context.Context, n catalog.Node, count int, ttl time.Duration,
) (first catalog.ObjectID, err error) {
	err = m.change(ctx, "prepare", func() error { first, err = m.Catalog.PrepareObjects(ctx, n, count, ttl); return err })
	return first, err
}

func (m *modelCatalog) Commit(ctx context.Context, n catalog.Node, c catalog.Commit) error {
	return m.change(ctx, "commit", func() error { return m.Catalog.Commit(ctx, n, c) })
}
