package config

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// streamKeys configure the streams on the object store. Several of them are -1 by default: the effective value then
// depends on the store and on the memory limit.
func streamKeys() []key {
	const mib = 1 << 20
	return []key{
		numberKey("store.inflight", func(s *Server) *int32 { return &s.StoreInflight }, 0, 0,
			"How many calls to the object store may be in progress at once, not counting puts of the log, which wal.inflight limits; 0 is 25 per core, from 50 to 1000."),
		autoSizeKey("wal.batch_bytes", func(s *Server) *int64 { return &s.WALBatchBytes }, 4096,
			"The largest object of the log of streams, at most 64MiB; -1 is 8MiB, at most a quarter of cache.wal_size."),
		autoDurationKey("wal.batch_interval", func(s *Server) *time.Duration { return &s.WALBatchInterval },
			"The shortest time between two objects of the log of streams that are not full: longer costs less and acknowledges later; -1 is 250ms, or 5ms if store is a directory."),
		autoSizeKey("wal.max_unflushed", func(s *Server) *int64 { return &s.WALMaxUnflushed }, mib,
			"How much may wait to be acknowledged, also limited by cache.wal_size; -1 is 1GiB, or 256MiB with a memory limit below 4GiB."),
		numberKey("wal.inflight", func(s *Server) *int32 { return &s.WALInflight }, 50, 1,
			"How many objects of the log of streams may be in progress at once, at most 64."),
		autoSizeKey("wal.readahead", func(s *Server) *int64 { return &s.WALReadahead }, mib,
			"How much of a dead node's log to read ahead when it is taken over; -1 is 100MiB, or what memory-limit leaves."),
		autoSizeKey("cache.wal_size", func(s *Server) *int64 { return &s.CacheWALSize }, mib,
			"The cache of records that are not uploaded yet or were recently; uploads and recovery may take twice as much again; -1 is 200MiB, or what memory-limit leaves."),
		autoSizeKey("cache.block_size", func(s *Server) *int64 { return &s.CacheBlockSize }, mib,
			"The cache of what was read from the object store; reads in progress may take as much again; -1 is 100MiB, or what memory-limit leaves."),
		autoSizeKey("cache.index_size", func(s *Server) *int64 { return &s.CacheIndexSize }, mib,
			"The cache of the indexes of objects; -1 is 100MiB, or what memory-limit leaves."),
		sizeKey("upload.threshold", func(s *Server) *int64 { return &s.UploadThreshold }, 100*mib, mib, math.MaxInt64,
			"How much of the log to upload at once, at most a third of cache.wal_size."),
		durationKey("upload.interval", func(s *Server) *time.Duration { return &s.UploadInterval }, time.Minute, time.Millisecond,
			"How old a record may get before it is uploaded."),
		durationKey("compact.interval", func(s *Server) *time.Duration { return &s.CompactInterval }, 20*time.Minute, time.Millisecond,
			"The pause between two compactions of the objects that hold several streams."),
		durationKey("compact.minor_interval", func(s *Server) *time.Duration { return &s.CompactMinorInterval }, 10*time.Minute,
			time.Millisecond, "The pause between two compactions of a stream's small objects."),
		durationKey("compact.major_interval", func(s *Server) *time.Duration { return &s.CompactMajorInterval }, time.Hour,
			time.Millisecond, "The pause between two compactions of all of a stream's objects."),
		autoSizeKey("compact.cache", func(s *Server) *int64 { return &s.CompactCache }, mib,
			"How much memory compaction may take; -1 is 200MiB, or what memory-limit leaves."),
		autoSizeKey("compact.bandwidth", func(s *Server) *int64 { return &s.CompactBandwidth }, 0,
			"How many bytes a second compaction may read and write; 0 is no limit, -1 is a quarter of net.bandwidth."),
		sizeKey("net.bandwidth", func(s *Server) *int64 { return &s.NetBandwidth }, 1<<30, mib, math.MaxInt64,
			"How many bytes a second this machine can exchange with the object store."),
		durationKey("gc.interval", func(s *Server) *time.Duration { return &s.GCInterval }, 10*time.Second, time.Millisecond,
			"How often to look for objects that are no longer used."),
		durationKey("gc.grace", func(s *Server) *time.Duration { return &s.GCGrace }, 10*time.Minute, time.Second,
			"How long an object that is no longer used is kept for readers that still have it."),
	}
}

// autoSizeKey is a size of at least so many bytes, or -1, the default, which leaves it to the server.
func autoSizeKey(name string, field func(*Server) *int64, least int64, doc string) key {
	return newKey(name, Size, doc, func(s *Server, text string) error {
		v, err := parseSize(text)
		if err != nil {
			return err
		}
		*field(s) = v
		if v < least && v != -1 {
			return fmt.Errorf("expected at least %s, or -1", renderSize(least))
		}
		return nil
	}, func(s *Server) string { return renderSize(*field(s)) }, "-1")
}

// autoDurationKey is a duration, or -1, the default, which leaves it to the server.
func autoDurationKey(name string, field func(*Server) *time.Duration, doc string) key {
	return newKey(name, Duration, doc, func(s *Server, text string) error {
		v := time.Duration(-1)
		if text != "-1" {
			var err error
			if v, err = parseDuration(text); err != nil {
				return err
			}
			if v < 0 {
				return errors.New("expected at least 0, or -1")
			}
		}
		*field(s) = v
		return nil
	}, func(s *Server) string {
		if *field(s) == -1 {
			return "-1"
		}
		return renderDuration(*field(s))
	}, "-1")
}
