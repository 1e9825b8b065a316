package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Writer configures one writing client.
type Writer struct {
	// Idempotent makes the client number its batches and retry each until it is answered, so every record must end up
	// in the log exactly once. Without it each batch is sent once and its fate may stay unknown.
	Idempotent bool
	// LeaderAck asks for acks=1 instead of acks=all. Only for a writer that is not idempotent.
	LeaderAck bool
	// Codec is the compression; the zero value is none.
	Codec kgo.CompressionCodec
	// MinBytes and MaxBytes bound the length of a value, both inclusive. Both 0 means 0 to 2048.
	MinBytes, MaxBytes int
}

// DefaultWriters is a mix that exercises the paths that differ in a crash: two idempotent writers, one that waits for
// the leader only, one with compression, and one with large values.
func DefaultWriters() []Writer {
	return []Writer{
		{Idempotent: true},
		{Idempotent: true, Codec: kgo.Lz4Compression()},
		{LeaderAck: true},
		{Codec: kgo.ZstdCompression(), MinBytes: 1, MaxBytes: 300},
		{Idempotent: true, MinBytes: 100_000, MaxBytes: 300_000},
	}
}

// LoadOptions says what load to run.
type LoadOptions struct {
	// Client holds the options of every client: the seed brokers at least, and a dialer where there is no network.
	Client []kgo.Opt
	// Writers is the set of writing clients. Empty means [DefaultWriters].
	Writers []Writer
	// Readers is how many clients read the topic from its start all the while.
	Readers int
	// Keep adds a client that repeatedly deletes all but this many of the newest records of each partition, and keeps
	// more where older ones may still be in flight. 0 deletes nothing.
	Keep int64
	// Group adds a client that repeatedly commits the positions of the readers as this group's offsets. Empty commits
	// nothing.
	Group string
	// Buffered is how many records each writer keeps in flight. 0 means 64.
	Buffered int
}

// Load is a set of clients at work. Close it.
type Load struct {
	ledger *Ledger
	cancel context.CancelFunc
	writes sync.WaitGroup
	reads  sync.WaitGroup
	client []*kgo.Client // the writers
	reader []*kgo.Client // and administrators
	stop   chan struct{}
	once   sync.Once

	mu struct {
		sync.Mutex
		running chan struct{} // closed while the writers may continue
	}
}

// StartLoad starts clients on the ledger's topic, which must exist or be created by the server on first use. They
// continue through any number of crashes of the server until [Load.Stop] or [Load.Close], and record in the ledger what
// the server promises.
func StartLoad(l *Ledger, o LoadOptions) (*Load, error) {
	if len(o.Writers) == 0 {
		o.Writers = DefaultWriters()
	}
	if o.Buffered == 0 {
		o.Buffered = 64
	}
	ctx, cancel := context.WithCancel(context.Background())
	load := &Load{ledger: l, cancel: cancel, stop: make(chan struct{})}
	load.mu.running = make(chan struct{})
	load.Resume()
	for range o.Readers {
		c, err := kgo.NewClient(append(crashOptions(o.Client),
			kgo.ConsumeTopics(l.topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.FetchMaxWait(100*time.Millisecond),
		)...)
		if err != nil {
			load.Close()
			return nil, fmt.Errorf("ledger: reader: %w", err)
		}
		load.reader = append(load.reader, c)
		load.reads.Go(func() { load.read(ctx, c) })
	}
	for n, w := range o.Writers {
		c, err := kgo.NewClient(append(crashOptions(o.Client), w.options(o.Buffered)...)...)
		if err != nil {
			load.Close()
			return nil, fmt.Errorf("ledger: writer %d: %w", n, err)
		}
		load.client = append(load.client, c)
		load.writes.Go(func() { load.write(ctx, c, n, w) })
	}
	if o.Keep == 0 && o.Group == "" {
		return load, nil
	}
	c, err := kgo.NewClient(crashOptions(o.Client)...)
	if err != nil {
		load.Close()
		return nil, fmt.Errorf("ledger: administrator: %w", err)
	}
	load.reader = append(load.reader, c)
	if o.Keep > 0 {
		load.reads.Go(func() { load.trim(ctx, c, o.Keep) })
	}
	if o.Group != "" {
		load.reads.Go(func() { load.commit(ctx, c, o.Group) })
	}
	return load, nil
}

// Pause keeps the writers from starting new records until [Load.Resume]. Records in flight continue, and so do readers.
func (l *Load) Pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.mu.running:
		l.mu.running = make(chan struct{})
	default: // paused already
	}
}

// Resume ends a [Load.Pause].
func (l *Load) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.mu.running:
	default:
		close(l.mu.running)
	}
}

// wait blocks until the writers may continue. It reports false once the load was stopped.
func (l *Load) wait() bool {
	l.mu.Lock()
	running := l.mu.running
	l.mu.Unlock()
	select {
	case <-l.stop:
		return false
	case <-running:
	}
	select {
	case <-l.stop:
		return false
	default:
		return true
	}
}

// Stop lets the writers finish their records in flight, which requires a server that answers, and then stops everything.
// It returns ctx's error when that ends first.
func (l *Load) Stop(ctx context.Context) error {
	l.once.Do(func() { close(l.stop) })
	var failed error
	for n, c := range l.client {
		if err := c.Flush(ctx); err != nil && failed == nil {
			failed = fmt.Errorf("ledger: writer %d: %d records still in flight: %w", n, c.BufferedProduceRecords(), err)
		}
	}
	l.Close()
	return failed
}

// Close stops everything immediately. Records in flight count as unknown. It returns after the last client ended.
func (l *Load) Close() {
	l.once.Do(func() { close(l.stop) })
	l.cancel()
	for _, c := range l.client {
		c.Close()
	}
	for _, c := range l.reader {
		c.Close()
	}
	l.writes.Wait()
	l.reads.Wait()
}

// crashOptions returns client options that find a restarted server quickly and never give up on it.
func crashOptions(client []kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.DialTimeout(2 * time.Second),
		kgo.RequestRetries(1 << 30),
		kgo.RetryTimeout(10 * time.Minute),
		kgo.UnknownTopicRetries(-1),
		kgo.AllowAutoTopicCreation(),
		kgo.AlwaysRetryEOF(), // a server that is stopping may close a connection before its first answer
	}, client...)
}

func (w Writer) options(buffered int) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.MaxBufferedRecords(buffered),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(w.Codec),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.StopProducerOnDataLossDetected(),
	}
	if w.Idempotent {
		return opts
	}
	if w.LeaderAck {
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	// A batch without a sequence number that is sent twice would rightly be in the log twice.
	return append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RecordRetries(0))
}

// pause is how long a writer that does not retry waits after a failure, so that it does not spin while the server is
// down.
const pause = 50 * time.Millisecond

func (l *Load) write(ctx context.Context, c *kgo.Client, writer int, w Writer) {
	maxBytes := w.MaxBytes
	if maxBytes == 0 {
		maxBytes = 2048
	}
	failed := make(chan struct{}, 1)
	answered := func(id ID, r *kgo.Record, err error) {
		l.ledger.sent(id)
		switch {
		case err == nil:
			l.ledger.Acknowledged(r)
			return
		case w.Idempotent && !stopped(err):
			l.ledger.Violated(Violation{Partition: r.Partition, Offset: -1,
				What: fmt.Sprintf("%s: an idempotent write was refused: %v", r.Key, err)})
		default:
			l.ledger.Unknown()
		}
		select {
		case failed <- struct{}{}:
		default:
		}
	}
	for seq := int64(0); ; seq++ {
		select {
		case <-failed:
			select {
			case <-l.stop:
			case <-time.After(pause):
			}
		default:
		}
		if !l.wait() {
			return
		}
		id := ID{Writer: writer, Seq: seq}
		if w.Idempotent {
			l.ledger.send(id)
		}
		c.Produce(ctx, newRecord(l.ledger.topic, id, w.MinBytes, maxBytes),
			func(r *kgo.Record, err error) { answered(id, r, err) })
	}
}

func (l *Load) read(ctx context.Context, c *kgo.Client) {
	for ctx.Err() == nil {
		fetches := c.PollFetches(ctx)
		fetches.EachError(func(_ string, p int32, err error) {
			if !stopped(err) {
				l.ledger.Violated(Violation{Partition: p, Offset: -1, What: fmt.Sprintf("a reader failed: %v", err)})
			}
		})
		fetches.EachRecord(l.ledger.Seen)
	}
}

// stopped reports whether err only says that this load ended the client.
func stopped(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed)
}
