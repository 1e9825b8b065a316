package objstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// Feature is something that Tidemark needs of a store and [Probe] tests.
type Feature string

// The features, in the order in which they are probed.
const (
	FeaturePut            Feature = "put"
	FeatureRead           Feature = "read after write"
	FeatureRange          Feature = "range reads"
	FeaturePutIfAbsent    Feature = "put-if-absent"
	FeatureList           Feature = "list after write"
	FeatureUpload         Feature = "multipart upload"
	FeatureUploadIfAbsent Feature = "multipart upload of what is absent"
	FeatureDelete         Feature = "delete"
)

// ProbeError says which store lacks what.
type ProbeError struct {
	// Store names the store.
	Store string
	// Feature is what it lacks, or what could not be determined.
	Feature Feature
	// Err is what went wrong: an [*Error] of the store, or a description of its wrong answer.
	Err error
}

func (e *ProbeError) Error() string {
	return fmt.Sprintf("object store %s lacks %s: %v", e.Store, e.Feature, e.Err)
}

// Unwrap returns the cause.
func (e *ProbeError) Unwrap() error { return e.Err }

// ProbePrefix is where [Probe] puts its objects.
const ProbePrefix = "tidemark-probe/"

// Probe tests everything that Tidemark needs of a store, with two small objects under [ProbePrefix] that it removes
// again. The error is a [*ProbeError]; whether a retry may help is [Retriable]'s to say. It costs about twenty calls.
// Any number of processes may probe the same store concurrently.
//
// A probe that succeeds also removes what was left under [ProbePrefix] more than a day ago, by processes or stores that
// died in the middle of something. It looks at one page of a listing, and does not fail if that fails.
func Probe(ctx context.Context, s Store) error {
	p := &probe{ctx: ctx, store: s, key: ProbePrefix + rand.Text()}
	err := p.run()
	if err != nil {
		// What was put may be there; the first error is the one that matters. A store that does not answer is not waited for.
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		_ = s.Delete(late, p.key, p.key+"-upload")
		return err
	}
	p.removeLeft()
	return nil
}

// tidyTime is how long a probe tries to remove its objects if it failed, and those that others left.
const tidyTime = 2 * time.Second

// leftAge is how old an object under [ProbePrefix] must be that nobody uses any more. Whoever puts one there removes it within
// minutes.
const leftAge = 24 * time.Hour

type probe struct {
	ctx   context.Context
	store Store
	key   string
	put   time.Time // when the object was put, by the clock of the store
}

// removeLeft removes what is old under ProbePrefix. Ages are by the clock of the store, which also said when the probe's own object
// was put.
func (p *probe) removeLeft() {
	ctx, cancel := context.WithTimeout(p.ctx, tidyTime)
	defer cancel()
	page, err := p.store.List(ctx, ListRequest{Prefix: ProbePrefix})
	if err != nil {
		return
	}
	var left []string
	for _, o := range page.Objects {
		if p.put.Sub(o.Modified) > leftAge {
			left = append(left, o.Key)
		}
	}
	if len(left) > 0 {
		_ = p.store.Delete(ctx, left...) // the next probe does it
	}
}

// run asks for one feature after the other and stops at the first that is missing.
func (p *probe) run() error {
	for _, step := range []struct {
		feature Feature
		ask     func() error
	}{
		{FeaturePut, func() error { return p.store.Put(p.ctx, p.key, []byte("tidemark-first")) }},
		{FeatureRead, func() error { return p.holds(p.key, "tidemark-first") }},
		{FeatureRange, p.rangeRead},
		{FeaturePutIfAbsent, p.putIfAbsent},
		{FeatureList, func() error { return p.listed(p.key, true) }},
		{FeatureUpload, p.upload},
		{FeatureUploadIfAbsent, p.uploadIfAbsent},
		{FeatureDelete, p.remove},
	} {
		if err := step.ask(); err != nil {
			return &ProbeError{Store: p.store.String(), Feature: step.feature, Err: err}
		}
	}
	return nil
}

func (p *probe) holds(key, want string) error {
	got, err := p.store.Get(p.ctx, key)
	if err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("object %q holds %q after %q was put", key, got, want)
	}
	return nil
}

func (p *probe) rangeRead() error {
	part := make([]byte, 4)
	if err := p.store.ReadRange(p.ctx, p.key, part, 4); err != nil {
		return err
	}
	if !bytes.Equal(part, []byte("mark")) {
		return fmt.Errorf("bytes 4 to 8 of object %q are %q, want %q", p.key, part, "mark")
	}
	return nil
}

// putIfAbsent must fail on a key that is taken, succeed on one that is not, and leave the object as it was.
func (p *probe) putIfAbsent() error {
	err := p.store.PutIfAbsent(p.ctx, p.key, []byte("tidemark-second"))
	switch {
	case err == nil:
		return fmt.Errorf("the store replaced object %q, which was there: it ignores the condition", p.key)
	case !errors.Is(err, ErrExists):
		return err
	}
	if err := p.holds(p.key, "tidemark-first"); err != nil {
		return err
	}
	if err := p.store.Delete(p.ctx, p.key); err != nil {
		return err
	}
	if err := p.store.PutIfAbsent(p.ctx, p.key, []byte("tidemark-third")); err != nil {
		return err
	}
	return p.holds(p.key, "tidemark-third")
}

func (p *probe) listed(key string, want bool) error {
	page, err := p.store.List(p.ctx, ListRequest{Prefix: key})
	if err != nil {
		return err
	}
	found := false
	for _, o := range page.Objects {
		if o.Key == key {
			found, p.put = true, o.Modified
		}
	}
	if found != want {
		return fmt.Errorf("object %q is in the listing: %t, want %t", key, found, want)
	}
	return nil
}

func (p *probe) upload() error {
	key := p.key + "-upload"
	up, err := p.store.Create(p.ctx, key)
	if err != nil {
		return err
	}
	if _, err := up.Write([]byte("tidemark-upload")); err != nil {
		return errors.Join(err, up.Abort())
	}
	if err := up.Finish(); err != nil {
		return err
	}
	return p.holds(key, "tidemark-upload")
}

// uploadIfAbsent must fail on a key that is taken, and leave the object as it was.
func (p *probe) uploadIfAbsent() error {
	key := p.key + "-upload"
	up, err := p.store.Create(p.ctx, key)
	if err != nil {
		return err
	}
	if _, err := up.Write([]byte("tidemark-another")); err != nil {
		return errors.Join(err, up.Abort())
	}
	switch err := up.Finish(); {
	case err == nil:
		return fmt.Errorf("the store replaced object %q, which was there: it ignores the condition", key)
	case !errors.Is(err, ErrExists):
		return err
	}
	return p.holds(key, "tidemark-upload")
}

func (p *probe) remove() error {
	if err := p.store.Delete(p.ctx, p.key, p.key+"-upload"); err != nil {
		return err
	}
	if err := p.listed(p.key, false); err != nil {
		return err
	}
	_, err := p.store.Get(p.ctx, p.key)
	if !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("object %q is still there after it was deleted: %w", p.key, cmpErr(err))
	}
	return nil
}

// cmpErr stands in for the error that should have come.
func cmpErr(err error) error {
	if err == nil {
		return errors.New("it was read")
	}
	return err
}
