package command

import (
	"context"
	"errors"
	"strings"

	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/vfs"
)

// examineJournal checks the journals of a data directory that no server is using. A running server watches its own
// journal.
func examineJournal(ctx context.Context, dataDir string) []finding {
	const check = "journal"
	if !node.IsDataDir(dataDir) {
		return nil
	}
	var left []string
	data, err := node.TakeStopped(ctx, dataDir, false, func(file, reason string) { left = append(left, file+": "+reason) })
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return []finding{okay(check, "in use by a server")}
	case err != nil:
		return []finding{fail(check, "%v", err)}
	}
	var found []finding
	partitions := 0
	for _, j := range data.Journals() {
		partitions += len(j.Held)
		switch {
		case data.StoppedCleanly():
		case j.Problem != nil:
			found = append(found, fail(check, "%v; a start restores what precedes the damage", j.Problem))
		case j.Waits:
			found = append(found, fail(check, "%s waits for its partitions' files: free some space if there is none, and start the server", j.File))
		}
	}
	if len(left) > 0 && !data.StoppedCleanly() {
		found = append(found, fail(check, "a start does not restore all of it: %s", strings.Join(left, "; ")))
	}
	if err := data.Close(); err != nil {
		found = append(found, fail(check, "%v", err))
	}
	if names := data.LeftJournals(); len(names) > 0 {
		found = append(found, warn(check, "%s: part of it could not be restored, and nothing reads it any more. Remove it once nobody needs it",
			strings.Join(names, ", ")))
	}
	if len(found) > 0 {
		return found
	}
	if files, bytes := data.PutBack(); files > 0 {
		return []finding{okay(check, "the next start restores %s that %s lost", size(bytes), plural(files, "segment"))}
	}
	if partitions > 0 {
		return []finding{okay(check, "the logs have everything that it holds")}
	}
	return []finding{okay(check, "none, or empty")}
}
