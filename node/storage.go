package node

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/partition"
	"github.com/tidemark-io/tidemark/vfs"
)

// ChangeFailedError is the error for a client whose change, or whose partition's opening, failed because of the disk or the
// operating system. It matches [partition.ErrStorage] and names nothing of the server; the server's log has the full cause.
type ChangeFailedError struct {
	Reason string
	Err    error
}

func (e *ChangeFailedError) Error() string { return e.Reason }

// Unwrap returns the full cause.
func (e *ChangeFailedError) Unwrap() error { return e.Err }

// Is reports that a ChangeFailedError matches [partition.ErrStorage].
func (e *ChangeFailedError) Is(target error) bool { return target == partition.ErrStorage }

// told returns the error that a client may see of a failed change, and logs the rest.
func (n *Node) told(err error) error {
	reason := storageReason(err)
	if reason == "" {
		return err
	}
	n.log.Error("a change was refused", "reason", reason, "error", err)
	return &ChangeFailedError{Reason: reason, Err: err}
}

// storageReason says in a few words what the operating system refused, or returns "" for an error of another kind or one
// that already has been described.
func storageReason(err error) string {
	var onPath *fs.PathError
	var onLink *os.LinkError
	var code syscall.Errno
	var vanished *VanishedError
	switch {
	case err == nil, errors.Is(err, partition.ErrLowDisk):
		return ""
	case errors.Is(err, meta.ErrNoSpace), vfs.IsNoSpace(err):
		return "the disk is full: delete topics or records, or add space"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "the server has no file descriptor left"
	case errors.As(err, &onPath), errors.As(err, &onLink), errors.As(err, &code), errors.As(err, &vanished),
		errors.Is(err, partition.ErrStorage):
		return "the server's storage failed; its log says how"
	}
	return ""
}
