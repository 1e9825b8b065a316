// Package nodetest runs whole servers in tests, on a disk in memory whose power can be cut.
//
//	m := nodetest.New(t)
//	m.Start()
//	… kgo.NewClient(kgo.SeedBrokers(m.Addr())) …
//	m.CutPower(nodetest.Cut{Seed: 1})
//	m.Start() // at the same address, with what the disk kept
package nodetest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/meta/metatest"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/memfs"
)

// DataDir is the node's data directory on [Machine.FS].
const DataDir = "data"

// stopTime is how long what is left of a node without power may take to end.
const stopTime = 5 * time.Minute

// Machine is a computer with a disk in memory, and the node that runs on it. It is for one goroutine.
type Machine struct {
	// FS is the disk. [Machine.CutPower] replaces it with what it kept.
	FS *memfs.FS

	// Meta is the store of the metadata log. What it acknowledged survives everything.
	Meta *metatest.Memory

	// Wrap, if not nil, is put between the node and the disk at each start, to fail calls.
	Wrap func(vfs.FS) vfs.FS

	// Config is what the node is started with. FS, Meta, DataDir, HTTP and the first Kafka listener are set by the machine.
	Config node.Config

	t    testing.TB
	addr string
	http string
	node *node.Node
}

// New returns a machine that is switched off. The test's end switches it off again.
func New(t testing.TB) *Machine {
	m := &Machine{
		FS: memfs.New(), Meta: metatest.NewMemory("nodetest"), t: t, addr: FreePort(), http: FreePort(),
		Config: node.Config{NodeID: 1},
	}
	t.Cleanup(m.Stop)
	return m
}

// FreePort is an address to listen on at any port, of a host that no other process listens on, where the system has as many
// loopback addresses as one likes. So nobody takes the port of a machine that is off, as the tests of other packages do that
// ask for a free one.
func FreePort() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1:0"
	}
	id := os.Getpid() // up to 22 bits
	return fmt.Sprintf("127.%d.%d.%d:0", 64+id>>16&63, id>>8&255, id&255)
}

// Start starts the node and returns it when it serves clients. It listens at the address that it had before.
func (m *Machine) Start() *node.Node {
	m.t.Helper()
	n, err := m.TryStart(context.Background())
	if err != nil {
		m.t.Fatalf("start: %v", err)
	}
	return n
}

// TryStart starts the node, or says why it does not start.
func (m *Machine) TryStart(ctx context.Context) (*node.Node, error) {
	if m.node != nil {
		return nil, fmt.Errorf("the node runs")
	}
	backend, err := m.Meta.Open()
	if err != nil {
		return nil, err
	}
	c := m.Config
	c.DataDir, c.FS, c.Meta = DataDir, m.FS, backend
	if m.Wrap != nil {
		c.FS = m.Wrap(m.FS)
	}
	c.Kafka, c.HTTP = append([]node.Listener{{Listen: m.addr}}, c.Kafka...), m.http
	n, err := node.Open(ctx, c)
	if err != nil {
		_ = backend.Close() // the node's error says more
		return nil, err
	}
	m.node = n
	m.addr, m.http = n.Addrs().Kafka.String(), n.Addrs().HTTP.String()
	return n, nil
}

// Node is the node that runs, or nil.
func (m *Machine) Node() *node.Node { return m.node }

// Addr is where Kafka clients connect. It is known after the first start and stays.
func (m *Machine) Addr() string { return m.addr }

// HTTPAddr is where the node answers administrators. It is known after the first start and stays.
func (m *Machine) HTTPAddr() string { return m.http }

// Stop closes the node in order. A node that does not run is left alone.
func (m *Machine) Stop() {
	m.t.Helper()
	if m.node == nil {
		return
	}
	if err := m.TryStop(context.Background()); err != nil {
		m.t.Errorf("stop: %v", err)
	}
}

// TryStop closes the node, or says why it was not closed in order. It does not run after either.
func (m *Machine) TryStop(ctx context.Context) error {
	n := m.node
	m.node = nil
	err := n.Close(ctx)
	m.Meta.Crash() // its session: there is nothing left to write
	return err
}

// Cut says what a power cut leaves of what was not made durable.
type Cut struct {
	Seed uint64

	// Keep is the share of unsynced sectors, lengths and names that survive, from 0 to 1. 1 is the end of the process on
	// a machine that runs on.
	Keep float64
}

// CutPower stops the machine at once, in the middle of whatever it does. The next start finds what the disk kept.
func (m *Machine) CutPower(c Cut) {
	m.t.Helper()
	m.FS.Kill()
	m.Meta.Crash()
	if m.node != nil {
		over, cancel := context.WithTimeout(context.Background(), stopTime)
		_ = m.node.Close(over) // only ends its goroutines: disk and metadata are gone
		cancel()
		m.node = nil
	}
	m.FS = m.FS.Crash(memfs.CrashOptions{Seed: c.Seed, KeepUnsynced: c.Keep, Torn: true})
}
