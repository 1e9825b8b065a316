package command

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/tidemark-io/tidemark/internal/quarantine"
	"github.com/tidemark-io/tidemark/vfs"
)

// examineQuarantine looks for files that starts and repairs kept aside. They count as a failure until somebody has looked
// at them and removed them.
func examineQuarantine(dataDir string) finding {
	const check = "quarantine"
	entries, err := vfs.OS().List(dataDir)
	if err != nil {
		return fail(check, "%v", err)
	}
	places := []quarantine.Place{quarantine.Beside(vfs.OS(), dataDir)}
	for _, e := range entries {
		if e.IsDir() {
			places = append(places, quarantine.In(vfs.OS(), filepath.Join(dataDir, e.Name())))
		}
	}
	files, newest, what := 0, time.Time{}, ""
	for _, place := range places {
		sets, readErr := place.Sets()
		err = errors.Join(err, readErr)
		for _, set := range sets {
			files += max(len(set.Files), 1) // a manifest without entries counts as one file
			if set.Time.After(newest) && len(set.Files) > 0 {
				newest, what = set.Time, place.Path(set.Name)
			}
		}
	}
	switch {
	case err != nil:
		return fail(check, "%v", err)
	case files == 0:
		return okay(check, "empty")
	}
	return fail(check, "%s kept aside, damaged or cut out of logs; %s says what the newest were and why. "+
		"Remove them once nobody needs them", plural(files, "file"), what)
}
