package meta

import (
	"io"
)

// Backup is a state of a log with the log's identity, to be kept elsewhere.
type Backup struct {
	// ClusterID is that of the log.
	ClusterID string
	// TakenMs is when it was taken, in ms since 1970, and Build the version of the program that did.
	TakenMs int64
	Build   string
	// State is the content of the log.
	State *State
}

const (
	backupMagic   = "TMBK"
	backupVersion = 1
)

// A backup. Little-endian; the CRC-32C covers everything before it.
//
//	off  0    4    5          13
//	    +----+----+----------+------------+-------+----------------+-----+
//	    |TMBK|ver | taken ms | cluster id | build | snapshot       | CRC |
//	    |  4 |1: 1|      i64 | str        | str   | blob (TMMS)    | u32 |
//	    +----+----+----------+------------+-------+----------------+-----+

// Encode returns the backup's bytes. It fails if a string is not UTF-8.
func (b Backup) Encode() ([]byte, error) {
	w := writer{}
	w.raw([]byte(backupMagic))
	w.u8(backupVersion)
	w.i64(b.TakenMs)
	w.str(b.ClusterID)
	w.str(b.Build)
	w.blob(b.State.EncodeSnapshot())
	return sealed(w.b), w.err
}

// DecodeBackup reads a backup. It keeps no reference to b. The error is a [*VersionError] for a backup that a newer version
// wrote and a [*FormatError] for anything else that is no backup.
func DecodeBackup(b []byte) (Backup, error) {
	r, _, err := opened(b, backupMagic, "backup version", backupVersion)
	if err != nil {
		return Backup{}, err
	}
	backup := Backup{TakenMs: r.i64(), ClusterID: r.str(), Build: r.str()}
	snapshot := r.blob()
	if err := r.finish(); err != nil {
		return Backup{}, err
	}
	backup.State, err = DecodeSnapshot(snapshot)
	return backup, err
}

// ReadBackup reads a backup to its end.
func ReadBackup(from io.Reader) (Backup, error) {
	b, err := io.ReadAll(from)
	if err != nil {
		return Backup{}, err
	}
	return DecodeBackup(b)
}
