package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// VanishedError says that the data directory of a running node was removed or replaced: the node writes to files that no
// longer have a name.
type VanishedError struct {
	Dir string
	Err error // what is missing, or nil for the directory itself
}

func (e *VanishedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the data directory %s is not the one that was opened: %v: put it back before the next start",
			e.Dir, e.Err)
	}
	return fmt.Sprintf("the data directory %s was removed or replaced while the server ran: put it back before the next start",
		e.Dir)
}

// Unwrap returns what is missing.
func (e *VanishedError) Unwrap() error { return e.Err }

// checkedFile is a metadata log that can check that its file is still in place.
type checkedFile interface{ CheckFile() error }

// stillThere makes sure that the data directory and its metadata log are the ones that were opened.
func (n *Node) stillThere() error {
	d := n.data
	now, err := d.fs.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &VanishedError{Dir: d.path}
	case err != nil:
		return nil // unknown
	case os.SameFile(d.opened, d.opened) && !os.SameFile(d.opened, now): // only some file systems can tell
		return &VanishedError{Dir: d.path}
	}
	if n.metaFile == nil {
		return nil
	}
	if err := n.metaFile.CheckFile(); err != nil {
		return &VanishedError{Dir: d.path, Err: err}
	}
	return nil
}

// checkStillThere ends the node's work when its data directory has vanished.
func (n *Node) checkStillThere() error {
	err := n.stillThere()
	if err != nil {
		n.fail(fmt.Errorf("node: %w", err))
	}
	return err
}
