package faultfs

import (
	"fmt"
	"strings"

	"github.com/tidemark-io/tidemark/vfs"
)

// Kind is which call of [vfs.FS] or [vfs.File] an [Op] is.
type Kind int

const (
	// OpOpen is FS.Open of an existing file: ReadOnly or ReadWrite.
	OpOpen Kind = iota
	// OpCreate is FS.Open in one of the three modes that may make or empty a file.
	OpCreate
	// OpRemove is FS.Remove.
	OpRemove
	// OpRename is FS.Rename.
	OpRename
	// OpLink is FS.Link.
	OpLink
	// OpMkdirAll is FS.MkdirAll.
	OpMkdirAll
	// OpList is FS.List.
	OpList
	// OpStat is FS.Stat.
	OpStat
	// OpChtimes is FS.Chtimes.
	OpChtimes
	// OpSyncDir is FS.SyncDir.
	OpSyncDir
	// OpLock is FS.Lock.
	OpLock
	// OpUnlock is Close of a lock, which happens even when it is made to fail.
	OpUnlock
	// OpSpace is SpaceReporter.Space.
	OpSpace
	// OpReadAt is File.ReadAt.
	OpReadAt
	// OpWriteAt is File.WriteAt.
	OpWriteAt
	// OpFileStat is File.Stat.
	OpFileStat
	// OpTruncate is File.Truncate.
	OpTruncate
	// OpSync is File.Sync.
	OpSync
	// OpClose is File.Close, which happens even when it is made to fail.
	OpClose
	// OpPreallocate is Preallocator.Preallocate.
	OpPreallocate
	// OpWriteVectorAt is VectorWriter.WriteVectorAt.
	OpWriteVectorAt
	// OpSendTo is SocketSender.SendTo.
	OpSendTo
	// OpWriteBack is WriteBacker.WriteBack.
	OpWriteBack
	// OpSyncVolume is Volume.Sync. The other calls of a volume count as those of a file or a directory.
	OpSyncVolume

	kinds // how many there are
)

// Kinds returns every kind once.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// IsWrite reports whether calls of this kind change the file system or make changes durable.
func (k Kind) IsWrite() bool {
	switch k {
	case OpCreate, OpRemove, OpRename, OpLink, OpMkdirAll, OpChtimes, OpSyncDir, OpLock,
		OpWriteAt, OpTruncate, OpSync, OpPreallocate, OpWriteVectorAt, OpWriteBack, OpSyncVolume:
		return true
	case OpOpen, OpList, OpStat, OpUnlock, OpSpace, OpReadAt, OpFileStat, OpClose, OpSendTo:
		return false
	}
	panic(fmt.Sprintf("faultfs: kind %d is neither read nor write", int(k)))
}

// String returns the word that stands for the kind in errors and traces.
func (k Kind) String() string {
	switch k {
	case OpOpen:
		return "open"
	case OpCreate:
		return "create"
	case OpRemove:
		return "remove"
	case OpRename:
		return "rename"
	case OpLink:
		return "link"
	case OpMkdirAll:
		return "mkdirall"
	case OpList:
		return "list"
	case OpStat:
		return "stat"
	case OpChtimes:
		return "chtimes"
	case OpSyncDir:
		return "syncdir"
	case OpLock:
		return "lock"
	case OpUnlock:
		return "unlock"
	case OpSpace:
		return "space"
	case OpReadAt:
		return "read"
	case OpWriteAt:
		return "write"
	case OpFileStat:
		return "fstat"
	case OpTruncate:
		return "truncate"
	case OpSync:
		return "sync"
	case OpClose:
		return "close"
	case OpPreallocate:
		return "preallocate"
	case OpWriteVectorAt:
		return "writev"
	case OpSendTo:
		return "send"
	case OpWriteBack:
		return "writeback"
	case OpSyncVolume:
		return "syncfs"
	}
	return fmt.Sprintf("kind %d", int(k))
}

// Op is one call.
type Op struct {
	Kind Kind
	// Index counts all calls of the file system and its files, from 0.
	Index int
	// Name is the path, for a file the one it was opened under.
	Name string
	// NewName is the second path of a rename or link.
	NewName string
	// Mode is how a file is opened or created.
	Mode vfs.Mode
	// Off and Len are the byte range of a read, write, reservation, write-back or sending. A truncation has its new
	// length in Off.
	Off, Len int64
}

// String describes the call without its index, as in a trace: "write data/f 0+12".
func (o Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", o.Kind, o.Name)
	switch o.Kind {
	case OpOpen, OpCreate:
		b.WriteString(modeText(o.Mode))
	case OpRename, OpLink:
		fmt.Fprintf(&b, " -> %s", o.NewName)
	case OpReadAt, OpWriteAt, OpPreallocate, OpWriteVectorAt, OpSendTo, OpWriteBack:
		fmt.Fprintf(&b, " %d+%d", o.Off, o.Len)
	case OpTruncate:
		fmt.Fprintf(&b, " %d", o.Off)
	}
	return b.String()
}

func modeText(m vfs.Mode) string {
	switch m {
	case vfs.ReadWrite:
		return " rw"
	case vfs.CreateNew:
		return " new"
	case vfs.CreateTruncate:
		return " empty"
	}
	return ""
}
