package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// designRow is what a row of the design's table of packages says of imports.
type designRow struct {
	rooms []string // whose row it is
	may   []string // what they may import; nil: whatever the table here says
}

// designRows reads the table of packages in docs/design.md.
func designRows(t *testing.T) (rows []designRow) {
	t.Helper()
	names := regexp.MustCompile("`([a-z/]+)`")
	for _, cells := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| ([^|]+) \| [^|]+ \|$`).FindAllStringSubmatch(readFile(t, "docs/design.md"), -1) {
		row := designRow{may: []string{}}
		for _, name := range names.FindAllStringSubmatch(cells[1], -1) {
			row.rooms = append(row.rooms, name[1])
		}
		for _, name := range names.FindAllStringSubmatch(cells[2], -1) {
			row.may = append(row.may, name[1])
		}
		if strings.HasPrefix(cells[2], "all of the above") || strings.HasPrefix(cells[2], "rooms, ") {
			row.may = nil
		}
		rows = append(rows, row)
	}
	return rows
}

// rowOf finds the row of a room, or of the room that it is in.
func rowOf(rows []designRow, room string) (designRow, bool) {
	for ; room != "."; room = path.Dir(room) {
		for _, row := range rows {
			if slices.Contains(row.rooms, room) {
				return row, true
			}
		}
	}
	return designRow{}, false
}

func TestTheDesignAllowsWhatTheTableDoes(t *testing.T) {
	rows := designRows(t)
	require.Greater(t, len(rows), 20)
	for room, imports := range allowedImports {
		if strings.HasPrefix(room, "internal/") {
			require.Contains(t, readFile(t, "docs/design.md"), room)
			continue
		}
		row, found := rowOf(rows, room)
		require.True(t, found, "docs/design.md has no row for %s", room)
		for _, imported := range imports {
			within := func(r string) bool { return imported == r || strings.HasPrefix(imported, r+"/") }
			if row.may != nil && !slices.Contains(leaves, imported) {
				require.True(t, slices.ContainsFunc(append(row.rooms, row.may...), within), "%s may import %s, which docs/design.md does not say", room, imported)
			}
		}
	}
}
