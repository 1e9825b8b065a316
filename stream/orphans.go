package stream

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/tidemark-io/tidemark/objstore"
	"github.com/tidemark-io/tidemark/stream/catalog"
)

// listEach yields all objects below a prefix, page by page, in the order of their keys. An error is yielded last.
func listEach(ctx context.Context, store objstore.Store, prefix string) iter.Seq2[objstore.Info, error] {
	return func(yield func(objstore.Info, error) bool) {
		for request := (objstore.ListRequest{Prefix: prefix}); ; {
			page, err := store.List(ctx, request)
			if err != nil {
				yield(objstore.Info{}, err)
				return
			}
			for _, info := range page.Objects {
				if !yield(info, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			request.Token = page.Next
		}
	}
}

// checkBucket looks for data objects that nothing refers to (GC-6). The view is older than the listing: an assigned id
// that is neither in use, reserved nor marked in it never will be again. If the components of a composite cannot be read,
// no object is reported as an orphan: it may be one of them.
func (c *checker) checkBucket(ctx context.Context) error {
	v, known, err := c.knownObjects(ctx)
	if err != nil {
		return err
	}
	for info, err := range listEach(ctx, c.Data, "") {
		if err != nil {
			return err
		}
		id, err := ParseDataKey(c.Namespace, info.Key)
		switch {
		case err != nil: // of the log, or not ours
			continue
		case id >= v.NextObject():
			if next := c.Catalog.View().NextObject(); id >= next {
				err = c.report(c.aboutObject(id), FoundFutureObject, "the next id is %d", next)
			}
		case known != nil && !known[id] && !v.IsPrepared(id):
			err = c.report(c.aboutObject(id), FoundOrphan, "nothing refers to its %d bytes", info.Size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// knownLooks is how often a new view is taken because a composite was deleted meanwhile.
const knownLooks = 5

// knownObjects returns a view and the objects that something in it refers to: those in use, those that wait for their
// deletion, and the components of both. known is nil if they cannot be determined.
func (c *checker) knownObjects(ctx context.Context) (v catalog.View, known map[catalog.ObjectID]bool, err error) {
	for range knownLooks {
		v = c.Catalog.View()
		known, err = c.referred(ctx, v)
		var version *VersionError
		switch {
		case errors.Is(err, errEnough):
			return v, nil, errEnough
		case errors.Is(err, objstore.ErrNotFound):
		case errors.As(err, &version), errors.Is(err, ErrCorrupt):
			return v, nil, nil
		default:
			return v, known, err
		}
	}
	return v, nil, nil // a composite in use is missing, as was reported
}

// referred collects what a view refers to.
func (c *checker) referred(ctx context.Context, v catalog.View) (map[catalog.ObjectID]bool, error) {
	known := map[catalog.ObjectID]bool{}
	for s := range v.StreamSets() {
		known[s.Object] = true
	}
	for s := range v.Streams() {
		for _, o := range v.StreamObjects(s.ID) {
			known[o.Object] = true
			if !o.Attributes.IsComposite() {
				continue
			}
			if err := c.addLinked(ctx, known, o.Object); err != nil {
				return nil, err
			}
		}
	}
	for _, d := range v.Destroyed(math.MaxInt32) {
		known[d.Object] = true
		if d.Operation != catalog.DeepDelete {
			continue
		}
		composite, err := isCompositeObject(ctx, c.Data, DataKey(c.Namespace, d.Object))
		if err == nil && composite {
			err = c.addLinked(ctx, known, d.Object)
		}
		if err != nil && !errors.Is(err, objstore.ErrNotFound) { // gone: its components were deleted before it
			return nil, errors.Join(err, c.reportStuck(d.Object, err))
		}
	}
	return known, nil
}

// addLinked adds the components of a composite.
func (c *checker) addLinked(ctx context.Context, known map[catalog.ObjectID]bool, id catalog.ObjectID) error {
	layout, err := loadComposite(ctx, c.Data, DataKey(c.Namespace, id), id)
	for _, component := range layout.components {
		known[component.Object] = true
	}
	return err
}

// reportStuck reports a composite that cannot be deleted because what it links is not known.
func (c *checker) reportStuck(id catalog.ObjectID, err error) error {
	var version *VersionError
	if !errors.As(err, &version) && !errors.Is(err, ErrCorrupt) {
		return nil
	}
	return c.report(c.aboutObject(id), FoundBadObject, "what it links cannot be deleted with it: %v", err)
}
