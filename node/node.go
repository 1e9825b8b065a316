package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-io/tidemark/admin"
	"github.com/tidemark-io/tidemark/coordinator/runner"
	"github.com/tidemark-io/tidemark/kafkalog"
	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/observe"
	"github.com/tidemark-io/tidemark/partition"
)

// Node is a running server. Make one with [Open] and end it with [Node.Close]. All methods are safe for concurrent use.
type Node struct {
	config  Config
	log     *slog.Logger
	metrics observe.Node
	reg     *prometheus.Registry
	status  *status
	began   time.Time

	life       context.Context // ends when clients are gone and the logs are about to be closed
	end        context.CancelCauseFunc
	background background
	names      nameLocks
	defaults   sync.RWMutex    // held by keepDefaults
	traces     *observe.Traces // may be nil

	// In the order in which they are opened; each is closed before those above it.
	data        *dataDir
	admin       *admin.Server
	clusterID   string
	meta        *meta.Log
	metaFile    checkedFile // nil when the metadata log is not in the data directory
	catalog     *catalog
	producerIDs *producerIDs
	member      *meta.Member
	streams     *streams
	env         *kafkalog.Env
	flusher     *partition.Flusher
	maintainer  *partition.Maintainer
	partitions  *partitions
	waits       journalWaits
	checkpoints *checkpoints
	groups      *runner.Runner
	space       *space
	room        partitionRoom
	topics      *observe.Topics
	shown       shown
	groupDetail observe.DetailVar // of the metrics
	logEvents   partition.Events
	aside       setAside
	storeEvents sync.Once
	storeCalled objstore.Events // from storeEvents on
	// storeProblem is why the object store could not be reached so far; empty: it was, or there is none.
	storeProblem atomicText

	opened bool // every log was opened, or is known not to open

	kafka    kafkaListeners
	httpAddr net.Addr

	closers []closer // in the order of opening

	failure struct {
		sync.Mutex
		err  error
		done chan struct{} // closed when the node has failed or is closed
		once sync.Once
	}
	closing struct {
		once sync.Once
		done chan struct{}
		err  error
	}
	late time.Duration // lateTime, but in tests
}

// closer undoes one step of start-up.
type closer struct {
	name  string
	close func(ctx context.Context) error
}

// ErrClosed is returned by [Node.Err] after [Node.Close], and is the cause of contexts that the close cancelled.
var ErrClosed = errors.New("node: closed")

// Open starts a node and returns when clients are served. It takes as long as recovery takes; the HTTP listener answers
// meanwhile. When ctx ends first, everything that was opened is closed again and the error is ctx's.
//
// Errors to match: [*ExposedError], [*MetadataLostError], [*IdentityError], vfs.ErrLocked when another process is using
// the data directory, and the errors of package meta about its files.
func Open(ctx context.Context, c Config) (*Node, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	n := newNode(c)
	if err := n.open(ctx); err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
		defer cancel()
		return nil, errors.Join(err, n.Close(cleanup))
	}
	return n, nil
}

// abortTime is how long a failed start may take to close what it had opened.
const abortTime = 10 * time.Second

func newNode(c Config) *Node {
	n := &Node{
		config: c, log: c.Log, reg: prometheus.NewRegistry(), status: &status{node: c.NodeID, progress: c.Progress},
		catalog: newCatalog(c), partitions: newPartitions(),
	}
	n.began, n.status.overview = c.Now(), n.overview
	n.groupDetail.Set(observe.GroupDetail(c.GroupMetrics))
	n.metrics = observe.NewNode(n.reg, c.Version)
	n.metrics.PartitionsLimit.Set(float64(max(c.MaxPartitions, 0)))
	n.life, n.end = context.WithCancelCause(context.Background())
	n.failure.done = make(chan struct{})
	n.closing.done = make(chan struct{})
	n.late = lateTime
	return n
}

// open runs the steps of start-up. Each one that succeeds adds its undo to n.closers.
func (n *Node) open(ctx context.Context) error {
	if err := n.openTraces(); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	ctx, started := n.traces.Work(ctx, "start", "node", n.config.NodeID)
	err := n.openAll(ctx)
	started(err)
	if err != nil {
		return err
	}
	n.status.serve()
	n.metrics.Ready.Set(1)
	n.log.Info("ready", "took", n.config.Now().Sub(n.began), "kafka", n.kafka, "http", n.httpAddr,
		"cluster", n.clusterID, "node", n.config.NodeID)
	return nil
}

// openAll runs the steps in order, until one fails or ctx ends.
func (n *Node) openAll(ctx context.Context) error {
	for _, step := range []struct {
		name string
		run  func(ctx context.Context) error
	}{
		{"opening the data directory", n.openData},
		{"opening the HTTP listener", n.openAdmin},
		{"opening the metadata log", n.openMeta},
		{"opening the object store", n.openStreams},
		{"opening partitions", n.openPartitions},
		{"starting the group coordinator", n.openGroups},
		{"opening the Kafka listeners", n.openBroker},
	} {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n.status.enter(step.name, 0)
		under, done := n.traces.Work(ctx, step.name)
		err := step.run(under)
		done(err)
		if err != nil {
			return fmt.Errorf("node: %s: %w", step.name, err)
		}
	}
	return nil
}

// undo adds the undo of a step that succeeded.
func (n *Node) undo(name string, close_ func(ctx context.Context) error) {
	n.closers = append(n.closers, closer{name, close_})
}

// Addrs are the addresses that a node listens on. HTTP is nil when it has no HTTP listener.
type Addrs struct {
	Kafka net.Addr // of the first Kafka listener
	HTTP  net.Addr

	// KafkaAdvertised is the HOST:PORT that the first listener advertises to clients, or empty where clients are given
	// the address that they connected to.
	KafkaAdvertised string

	// KafkaListeners are all Kafka listeners, in the order of [Config.Kafka].
	KafkaListeners []KafkaListener
}

// KafkaListener is an open Kafka listener.
type KafkaListener struct {
	Addr net.Addr

	// Advertised is the HOST:PORT given to clients, or empty where they are given the address that they connected to.
	Advertised string
}

// Addrs returns where the node listens.
func (n *Node) Addrs() Addrs {
	a := Addrs{HTTP: n.httpAddr, KafkaListeners: slices.Clone(n.kafka)}
	if len(n.kafka) > 0 {
		a.Kafka, a.KafkaAdvertised = n.kafka[0].Addr, n.kafka[0].Advertised
	}
	return a
}

// Ready reports whether clients are served: from the return of [Open] to the beginning of [Node.Close].
func (n *Node) Ready() bool { return n.status.Readiness().Ready }

// ClusterID is the identity of the cluster that the node belongs to.
func (n *Node) ClusterID() string { return n.clusterID }

// Done returns a channel that is closed when the node cannot continue, or when it is closed; [Node.Err] says which. The owner
// of the node must then call [Node.Close].
func (n *Node) Done() <-chan struct{} { return n.failure.done }

// Err returns nil while the node runs, [ErrClosed] after [Node.Close], and otherwise the error that ended it.
func (n *Node) Err() error {
	n.failure.Lock()
	defer n.failure.Unlock()
	return n.failure.err
}

// fail ends the node's work: the node only serves health checks until it is closed.
func (n *Node) fail(err error) {
	n.failure.once.Do(func() {
		n.failure.Lock()
		n.failure.err = err
		n.failure.Unlock()
		n.status.fail(err)
		close(n.failure.done)
	})
}
