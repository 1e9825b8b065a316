package kafkalog

import (
	"errors"
	"path"
	"strings"
	"syscall"

	"github.com/tidemark-io/tidemark/internal/quarantine"
)

// Before Open rebuilds a damaged file it keeps a copy, in the directory `quarantine` of the log's own, for whoever
// wants to know what happened. Kafka ignores a directory there.
//
// Index files of records are not among it: each of their entries can be had from the records, and after a crash they are
// rebuilt without being looked at.

// Bounds of what Opens keep aside in one log: beyond either the oldest goes.
const (
	keptSets  = 16
	keptBytes = 64 << 20
)

// setAside copies a damaged file that is about to be rebuilt.
func (e *Env) setAside(dir, name string, reason error) error {
	place := quarantine.In(e.fs, dir)
	set, err := place.Begin(e.now(), quarantine.ByStart)
	if err == nil {
		err = set.Copy(name, reason.Error())
	}
	if err == nil {
		err = set.Commit()
	}
	if err == nil {
		err = place.Prune(keptSets, keptBytes)
	}
	if err != nil {
		return &IOError{Op: "keep aside", Path: path.Join(dir, name), Err: err}
	}
	e.events.SetAside(SetAsideEvent{File: path.Join(dir, name), Kept: set.Paths()[0], Reason: reason})
	return nil
}

// withoutIndex drops the error of an index that cannot be used, as [ignoreUnusable] does, and reports a damaged one. So
// is one that the device does not give any more: it would keep readers from records that are whole.
func (s *segment) withoutIndex(err error) error {
	var corrupt *CorruptionError
	var unread *ReadError
	switch {
	case errors.As(err, &corrupt):
		s.tellDamagedIndex(corrupt.Path, corrupt)
	case errors.As(err, &unread) && errors.Is(err, syscall.EIO) && isIndexName(unread.Path):
		s.tellDamagedIndex(unread.Path, unread)
		return nil
	}
	return ignoreUnusable(err)
}

// tellDamagedIndex reports an index that cannot be used, once.
func (s *segment) tellDamagedIndex(file string, damage error) {
	told := &s.indexTold
	if strings.HasSuffix(file, timeIndexSuffix) {
		told = &s.timesTold
	}
	if isIndexName(file) && !s.gone.Load() && !told.Swap(true) {
		s.env.events.DamagedIndex(DamagedIndexEvent{File: file, Err: damage})
	}
}
