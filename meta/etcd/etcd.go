package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tidemark-io/tidemark/meta"
)

// Backend is a metadata log in etcd. It implements [meta.Backend].
type Backend struct {
	config    Config
	keys      keys
	client    *clientv3.Client
	clusterID string
	notify    chan struct{}
	watched   chan struct{} // closed when the watch has ended
	claims    claims

	life context.Context // ends when Close is called
	end  context.CancelFunc
}

var _ meta.Backend = (*Backend)(nil)

// Open opens the log, or makes it, and waits for etcd as long as ctx allows. What is made is durable when Open returns.
//
// Errors to match: [*meta.MissingError] under MustExist, [*meta.ClusterIDError], [*meta.VersionError] for a log that a newer
// version made, [meta.ErrUnavailable] when ctx ended before etcd answered.
func Open(ctx context.Context, c Config) (*Backend, error) {
	b, err := dial(c)
	if err != nil {
		return nil, err
	}
	revision, err := b.prepare(ctx)
	if err != nil {
		b.end()
		_ = b.client.Close() // nothing was done over it
		return nil, err
	}
	go b.watch(revision)
	return b, nil
}

// dial returns a backend that has found nothing yet. It does not wait for etcd, except to show who the user is.
func dial(c Config) (*Backend, error) {
	c = c.withDefaults()
	b := &Backend{
		config: c, keys: keys{"/tidemark/" + c.Name + "/"}, notify: make(chan struct{}, 1), watched: make(chan struct{}),
	}
	b.life, b.end = context.WithCancel(context.Background())
	var err error
	b.client, err = clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, Username: c.Username, Password: c.Password, TLS: c.TLS, DialTimeout: c.Timeout,
		DialKeepAliveTime: c.TTL / 2, DialKeepAliveTimeout: c.TTL / 2, DialOptions: c.DialOptions,
		Logger: zap.NewNop(), Context: b.life,
	})
	if err != nil {
		err = b.readFailed(context.Background(), err)
		b.end()
		return nil, err
	}
	return b, nil
}

// prepare finds or creates the log, retries until etcd answers, and returns the revision at which the log existed.
func (b *Backend) prepare(ctx context.Context) (revision int64, err error) {
	for why := error(nil); ; {
		revision, err = b.find(ctx)
		if err == nil || !errors.Is(err, meta.ErrUnavailable) && !errors.Is(err, meta.ErrOutcomeUnknown) {
			return revision, err
		}
		if why == nil || ctx.Err() == nil { // the last error, after ctx has ended, says less
			why = err
		}
		if err := pause(ctx, retryAfter); err != nil {
			return 0, fmt.Errorf("%w: no etcd has answered: %w: %w", meta.ErrUnavailable, err, why)
		}
	}
}

// retryAfter is the wait before etcd is asked again that did not answer.
const retryAfter = 100 * time.Millisecond

// find reads the keys that identify a log. If there are none it creates the log, unless it must exist.
func (b *Backend) find(ctx context.Context) (revision int64, err error) {
	under, cancel := b.limit(ctx)
	defer cancel()
	absent := clientv3.Compare(clientv3.CreateRevision(b.keys.format()), "=", 0)
	var make []clientv3.Op
	newID := cmp.Or(b.config.ClusterID, b.config.NewClusterID)
	if !b.config.MustExist && newID != "" {
		make = []clientv3.Op{
			clientv3.OpPut(b.keys.format(), fmt.Sprint(formatVersion)),
			clientv3.OpPut(b.keys.cluster(), newID),
			clientv3.OpPut(b.keys.head(), encodeIndex(0)),
		}
	}
	done, err := b.client.Txn(under).If(absent).Then(make...).
		Else(clientv3.OpGet(b.keys.format()), clientv3.OpGet(b.keys.cluster())).Commit()
	switch {
	case err != nil:
		return 0, b.writeFailed(ctx, err)
	case done.Succeeded && len(make) == 0:
		return 0, &meta.MissingError{Path: b.String()}
	case done.Succeeded:
		b.clusterID = newID
		return done.Header.Revision, nil
	}
	return done.Header.Revision, b.identify(valueOf(done, 0), valueOf(done, 1))
}

// identify checks the identity of a log.
func (b *Backend) identify(format, cluster []byte) error {
	version, err := decodeIndex(format)
	switch {
	case err != nil:
		return &meta.CorruptError{Where: b.String(), Item: b.keys.format(), Err: err}
	case version != formatVersion:
		return &meta.CorruptError{Where: b.String(), Item: b.keys.format(), Err: &meta.VersionError{
			What: "layout version", Got: version, Known: formatVersion,
		}}
	case len(cluster) == 0:
		return &meta.CorruptError{Where: b.String(), Item: b.keys.cluster(), Err: errors.New("it is missing or empty")}
	}
	b.clusterID = string(cluster)
	if want := b.config.ClusterID; want != "" && want != b.clusterID {
		return &meta.ClusterIDError{Path: b.String(), Stored: b.clusterID, Want: want}
	}
	return nil
}

// valueOf returns the result of the i-th operation of a transaction, nil for nothing.
func valueOf(done *clientv3.TxnResponse, i int) []byte {
	if kvs := done.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
		return kvs[0].Value
	}
	return nil
}

// limit bounds a request by the configured time, the caller's context and the life of the backend.
func (b *Backend) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	under, cancel := context.WithTimeout(ctx, b.config.Timeout)
	stop := context.AfterFunc(b.life, cancel)
	return under, func() { stop(); cancel() }
}

// usable says why a call cannot be made at all.
func (b *Backend) usable(ctx context.Context) error {
	if b.life.Err() != nil {
		return meta.ErrClosed
	}
	return ctx.Err()
}

// String returns the log's URL, without a user.
func (b *Backend) String() string { return b.config.String() }

// ClusterID returns the id that was stored when the log was made.
func (b *Backend) ClusterID() string { return b.clusterID }

// Head returns the index of the newest entry.
func (b *Backend) Head(ctx context.Context) (uint64, error) {
	if err := b.usable(ctx); err != nil {
		return 0, err
	}
	under, cancel := b.limit(ctx)
	defer cancel()
	got, err := b.client.Get(under, b.keys.head())
	if err != nil {
		return 0, b.readFailed(ctx, err)
	}
	if len(got.Kvs) == 0 {
		return 0, &meta.MissingError{Path: b.String() + ": " + b.keys.head()}
	}
	return b.headOf(got.Kvs[0].Value)
}

func (b *Backend) headOf(value []byte) (uint64, error) {
	head, err := decodeIndex(value)
	if err != nil {
		return 0, &meta.CorruptError{Where: b.String(), Item: b.keys.head(), Err: err}
	}
	return head, nil
}

// Append stores an entry at index. When it returns nil the entry is on a majority of etcd's members.
func (b *Backend) Append(ctx context.Context, index uint64, entry []byte) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	if index == 0 {
		return fmt.Errorf("%w: there is no entry 0", meta.ErrConflict)
	}
	under, cancel := b.limit(ctx)
	defer cancel()
	done, err := b.client.Txn(under).
		If(clientv3.Compare(clientv3.Value(b.keys.head()), "=", encodeIndex(index-1))).
		Then(clientv3.OpPut(b.keys.entry(index), string(entry)), clientv3.OpPut(b.keys.head(), encodeIndex(index))).
		Commit()
	if err != nil {
		return b.writeFailed(ctx, err)
	}
	if !done.Succeeded {
		return fmt.Errorf("%w: the head is not %d", meta.ErrConflict, index-1)
	}
	return nil
}

// Read returns entries from the index on, as they were at one moment.
func (b *Backend) Read(ctx context.Context, from uint64, limit int) ([][]byte, error) {
	if err := b.usable(ctx); err != nil || limit <= 0 {
		return nil, err
	}
	under, cancel := b.limit(ctx)
	defer cancel()
	done, err := b.client.Txn(under).Then(
		clientv3.OpGet(b.keys.head()),
		clientv3.OpGet(b.keys.entry(from), clientv3.WithRange(b.keys.entry(from+uint64(limit)))),
	).Commit()
	if err != nil {
		return nil, b.readFailed(ctx, err)
	}
	head, err := b.headOf(valueOf(done, 0))
	if err != nil || from > head {
		return nil, err
	}
	var entries [][]byte
	for _, kv := range done.Responses[1].GetResponseRange().Kvs {
		if string(kv.Key) != b.keys.entry(from+uint64(len(entries))) {
			break
		}
		entries = append(entries, kv.Value)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%w: entry %d of %d", meta.ErrTruncated, from, head)
	}
	return entries, nil
}

// Close releases all claims and closes the connections.
func (b *Backend) Close() error {
	if b.life.Err() != nil {
		return nil
	}
	b.claims.releaseAll()
	b.end()
	<-b.watched
	b.claims.wait()
	if err := b.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("meta: %s: %w", b, err)
	}
	return nil
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
