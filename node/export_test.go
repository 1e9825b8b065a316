package node

import (
	"context"

	"github.com/tidemark-io/tidemark/vfs"
)

// TakeStoppedOn is TakeStopped with files of the test's.
func TakeStoppedOn(ctx context.Context, fs vfs.FS, name string, change bool, leftAlone func(file, reason string)) (*StoppedDir, error) {
	return takeStopped(ctx, Config{DataDir: name, FS: fs}.withDefaults(), change, leftAlone)
}
