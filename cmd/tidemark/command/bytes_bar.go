package command

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/tidemark-io/tidemark/vfs"
)

// bytesBar shows reading progress on a terminal, for a total that may still grow. Elsewhere it shows nothing.
type bytesBar struct {
	w    io.Writer
	bar  *progress // nil until there is something to read
	done int64
}

// add raises the expected total.
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

// end draws the final state, once.
func (b *bytesBar) end() {
	if b.bar != nil && b.bar.terminal {
		b.bar.finish(min(b.done, b.bar.total))
	}
	b.bar, b.done = nil, 0
}

// recordBytes estimates how many bytes of records a partition's directory holds.
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
