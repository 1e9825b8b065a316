package logdir

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/tidemark-io/tidemark/vfs"
)

// The marker .kafka_cleanshutdown says by its presence that the last owner closed all logs. Its content is JSON on one
// line without an end:
//
//	{"version":0,"brokerEpoch":17}
//
// Old brokers wrote an empty file. Only presence decides, so that no content, not even that of a later version, is an
// error: what is not understood has no broker epoch.

// CleanShutdown is what the last owner of a directory recorded about its shutdown.
type CleanShutdown struct {
	// Clean says that all logs had been synced and closed: they need no recovery.
	Clean bool
	// BrokerEpoch is the epoch of the node that wrote the marker; -1 if it is not known.
	BrokerEpoch int64
}

// marker is the file's content.
type marker struct {
	Version     int64 `json:"version"`
	BrokerEpoch int64 `json:"brokerEpoch"`
}

// TakeCleanShutdown reads the marker and removes it durably, so that the next process recovers if this one does not
// stop cleanly. What is said of closed logs ([Dir.ClosedLogs]) goes with it. Call it before any log is loaded. Later calls
// return the first one's answer.
func (d *Dir) TakeCleanShutdown() (CleanShutdown, error) {
	var taken CleanShutdown
	err := d.use(func() error {
		d.end.Lock()
		defer d.end.Unlock()
		if d.end.taken == nil {
			found, err := d.takeMarker()
			if err != nil {
				return err
			}
			d.end.taken = &found
		}
		taken = *d.end.taken
		return nil
	})
	return taken, err
}

// HasCleanShutdown reports whether the marker exists, without removing it.
func (d *Dir) HasCleanShutdown() (there bool, err error) {
	err = d.use(func() error {
		_, err := d.fs.Stat(d.file(cleanShutdownFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		there = err == nil
		return err
	})
	return there, err
}

// takeMarker is done only when the removal is durable. If it fails after the removal, the clean end is forgotten, which
// costs a recovery and no data. Of the two files a power cut may bring either back, or both: what is said of closed logs is
// believed beside a marker only, and both are back only if nothing was loaded yet.
func (d *Dir) takeMarker() (CleanShutdown, error) {
	if err := d.fs.Remove(d.file(closedLogsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return CleanShutdown{}, err
	}
	file := d.file(cleanShutdownFile)
	data, err := vfs.ReadFile(d.fs, file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// One that cannot be read is worth nothing, and a recovery costs no data.
		if err := d.fs.Remove(file); err != nil {
			return CleanShutdown{}, err
		}
		return CleanShutdown{BrokerEpoch: -1}, d.fs.SyncDir(d.path)
	}
	if err != nil {
		// An earlier process may have removed it and been killed before that was durable.
		return CleanShutdown{BrokerEpoch: -1}, d.fs.SyncDir(d.path)
	}
	if err := d.fs.Remove(file); err != nil {
		return CleanShutdown{}, err
	}
	return CleanShutdown{Clean: true, BrokerEpoch: decodeMarker(data)}, d.fs.SyncDir(d.path)
}

func decodeMarker(data []byte) (brokerEpoch int64) {
	m := marker{BrokerEpoch: -1}
	if err := json.Unmarshal(data, &m); err != nil || m.Version != 0 || m.BrokerEpoch < 0 {
		return -1
	}
	return m.BrokerEpoch
}

// MarkLoaded records that every log in the directory has been loaded, and recovered where that was needed, so that a
// clean shutdown may be recorded even if the last one was not.
func (d *Dir) MarkLoaded() {
	d.end.Lock()
	defer d.end.Unlock()
	d.end.loaded = true
}

// WriteCleanShutdown leaves the marker for the next owner and returns when it is durable. Call it last, when all logs
// are synced and closed and the recovery points and log starts are written. brokerEpoch is -1 if there is none.
//
// It fails with an error that matches [ErrNotLoaded] and writes nothing unless [Dir.TakeCleanShutdown] found a marker
// or [Dir.MarkLoaded] was called.
func (d *Dir) WriteCleanShutdown(brokerEpoch int64) error {
	return d.use(func() error {
		d.end.Lock()
		defer d.end.Unlock()
		if wasClean := d.end.taken != nil && d.end.taken.Clean; !wasClean && !d.end.loaded {
			return ErrNotLoaded
		}
		data, err := json.Marshal(marker{BrokerEpoch: brokerEpoch})
		if err != nil {
			return err
		}
		return vfs.WriteFileAtomic(d.fs, d.file(cleanShutdownFile), data)
	})
}
