package command

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/tidemark-io/tidemark/vfs"
)

// bytesBar shows on a terminal how much was read of what is to be, which may become more on the way. Elsewhere it shows nothing.
type bytesBar struct {
	w    io.Writer
	bar  *progress // nil before there is something to read
	done int64
}

// add has the bar expect so many bytes more.
func (b *bytesBar) add(bytes int64) {
	if b.bar == nil {
		b.bar = newProgress(b.w, "reading", 0)
		b.bar.unit = size
	}
	b.bar.total += bytes
}

// more counts bytes that were read.
func (b *bytesBar) more(bytes int64) {
	b.done += bytes
	if b.bar != nil {
		b.bar.set(min(b.done, b.bar.total))
	}
}

// end draws the end, once.
func (b *bytesBar) end() {
	if b.bar != nil && b.bar.terminal {
		b.bar.finish(min(b.done, b.bar.total))
	}
	b.bar, b.done = nil, 0
}

// recordBytes is how many bytes of records there are in a partition's directory, as far as that can be told.
func recordBytes(dir string) (total int64) {
	entries, err := vfs.OS().List(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") {
			if info, err := vfs.OS().Stat(filepath.Join(dir, e.Name())); err == nil {
				total += info.Size()
			}
		}
	}
	return total
}
