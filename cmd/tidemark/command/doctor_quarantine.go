package command

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/tidemark-io/tidemark/internal/quarantine"
	"github.com/tidemark-io/tidemark/vfs"
)

// examineQuarantine looks for what starts and repairs kept aside. It is a failure until somebody has looked at it and removed it.
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
			files += max(len(set.Files), 1) // one of a manifest that says nothing
			if set.Time.After(newest) && len(set.Files) > 0 {
				newest, what = set.Time, place.Path(set.Name)
			}
		}
	}
	switch {
	case err != nil:
		return fail(check, "%v", err)
	case files == 0:
		return okay(check, "no damaged file was kept aside")
	}
	return fail(check, "%s that were damaged, or were cut out of logs, are kept aside; %s says what the newest were and why. "+
		"Remove them once nobody needs them", plural(files, "file"), what)
}
