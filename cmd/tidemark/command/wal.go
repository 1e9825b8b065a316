package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream"
)

func newWAL() *cobra.Command {
	c := &cobra.Command{
		Use:   "wal",
		Short: "Print the write-ahead logs of a bucket, and drop what was kept of damaged ones",
		Example: `  tidemark wal dump ./bucket
  tidemark wal dump 's3://bucket?region=eu-central-1' --node 5
  tidemark wal drop-salvaged 's3://bucket?region=eu-central-1'`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newWALDump(), newWALDropSalvaged())
	return c
}

func newWALDump() *cobra.Command {
	var only walSelection
	c := &cobra.Command{
		Use:   "dump URL",
		Short: "Print the write-ahead logs of a bucket, object by object in order",
		Long: `Print the write-ahead log of every node in a bucket: its objects in the order of epoch and position, with header, trim,
fences and every frame, whether Tidemark or another implementation of the format has written it. Checksums are verified and
headers are checked against keys; damage is shown where it is, and the exit code is then 1. Nothing is written, so the
command is safe on the bucket of a running server; objects that the server removes meanwhile are listed as gone.

URL is a directory, s3://BUCKET, gs://BUCKET or azblob://CONTAINER, followed by /PREFIX if the logs are below one.`,
		Example: `  tidemark wal dump ./bucket
  tidemark wal dump 's3://bucket?region=eu-central-1' --node 5 --epoch 12 --output json`,
		Args: exactly("URL"),
	}
	c.Flags().StringVar(&only.cluster, "cluster", "", "print only the logs of the cluster `ID`")
	c.Flags().Int64Var(&only.node, "node", -1, "print only the log of the node `ID`; -1 is every node")
	c.Flags().Int64Var(&only.epoch, "epoch", -1, "print only objects of this node `EPOCH`; -1 is every epoch")
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		store, err := node.ReadObjects(c.Context(), args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		found, err := findWALObjects(c.Context(), store, only)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%s holds no such object of a write-ahead log", store)
		}
		return dumpObjects(c, asJSON, func(d *objectDump) error {
			for _, w := range found {
				if err := d.walOf(c.Context(), w); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return c
}

// walSelection says which logs are requested; -1, or an empty cluster, means all.
type walSelection struct {
	cluster     string
	node, epoch int64
}

func (s walSelection) takes(p walPlace) bool {
	return (s.cluster == "" || s.cluster == p.cluster) && (s.node < 0 || s.node == int64(p.node)) &&
		(s.epoch < 0 || s.epoch == p.epoch)
}

// walObjectInStore is an object of a node's log.
type walObjectInStore struct {
	storedObject
	place walPlace
}

// findWALObjects lists the objects of write-ahead logs, in the order of cluster, node, epoch and position.
func findWALObjects(ctx context.Context, store objstore.Store, only walSelection) ([]walObjectInStore, error) {
	var found []walObjectInStore
	request := objstore.ListRequest{}
	for {
		page, err := store.List(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Objects {
			if p, ok := parseWALPlace(info.Key); ok && only.takes(p) {
				found = append(found, walObjectInStore{storedObject{store, info.Key, info.Size}, p})
			}
		}
		if request.Token = page.Next; request.Token == "" {
			break
		}
	}
	slices.SortFunc(found, func(a, b walObjectInStore) int { return a.place.compare(b.place) })
	return found, nil
}

// walEnd is how an object of a log ends.
type walEnd struct {
	place   walPlace
	end     int64 // logical offset behind its last byte
	missing int64 // bytes of its last frame that are in the next object
}

// walOf prints an object of a log and checks its header against its key, and its beginning against the end of the object
// before.
func (d *objectDump) walOf(ctx context.Context, w walObjectInStore) error {
	before, problems := d.walEnd, d.problems
	d.walEnd = walEnd{}
	if err := d.object(ctx, w.storedObject); err != nil {
		if errors.Is(err, objstore.ErrNotFound) {
			return d.print(goneLine{Type: "gone", Key: w.key})
		}
		return err
	}
	b, err := w.read(ctx, 0, min(w.size, stream.WALHeaderSize))
	if err != nil {
		return err
	}
	h, err := stream.DecodeWALHeader(w.key, w.size, b)
	if err != nil {
		return nil // reported above
	}
	if d.problems == problems { // else it is not known how its frames end
		d.walEnd.place, d.walEnd.end = w.place, h.Start+h.BodyLen
	}
	if w.place.follows(before.place, before.end) && h.Sticky != before.missing {
		if err := d.problem(stickyError(w.key, before.missing, h.Sticky)); err != nil {
			return err
		}
	}
	if h.Version == 1 && h.Epoch > w.place.epoch {
		return d.print(fenceLine{Type: "fence", Epoch: w.place.epoch, ByEpoch: h.Epoch})
	}
	if err := w.place.check(w.key, h, w.size); err != nil {
		return d.problem(err)
	}
	return nil
}

func stickyError(key string, want, got int64) error {
	return &stream.CorruptError{
		Object: key, Position: 20, What: "bytes left of the last frame of the object before", Want: fmt.Sprint(want),
		Got: fmt.Sprint(got),
	}
}

// goneLine is an object that was removed after it had been listed, as a server does with objects that it no longer needs.
type goneLine struct {
	Type string `json:"type"` // "gone"
	Key  string `json:"key"`
}

func (l goneLine) text() string { return fmt.Sprintf("%s  removed meanwhile", l.Key) }

// fenceLine is the mark by which a later epoch of a node ends an earlier one: nothing at or after it counts.
type fenceLine struct {
	Type    string `json:"type"` // "fence"
	Epoch   int64  `json:"epoch"`
	ByEpoch int64  `json:"by_epoch"`
}

func (l fenceLine) text() string {
	return fmt.Sprintf("  FENCE: epoch %d ends here, put by epoch %d", l.Epoch, l.ByEpoch)
}
