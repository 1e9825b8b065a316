package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// place is where a reader begins or ends, or where a group is set to: the same words everywhere.
type place struct {
	kind placeKind
	n    int64 // an offset, a count of records, or milliseconds since 1970
}

type placeKind int

const (
	atStart   placeKind = 1
	atEnd     placeKind = 2
	atOffset  placeKind = 3
	beforeEnd placeKind = 4 // n records before the end
	atTime    placeKind = 5 // the first record that is not older
)

// placeHelp says what words a place may be, for help texts.
const placeHelp = `start or earliest, end or latest, an offset (4711), that many records before the end (-10), an age (-1h, -7d),
now, a time (2026-01-31, 2026-01-31T08:00, 2026-01-31T08:00:00Z; local unless it names a zone) or milliseconds since
1970 (@1769846400000). A time stands for the first record that is not older.`

// parsePlace reads the value of a flag that takes a place.
func parsePlace(c *cobra.Command, flag, word string, now time.Time) (place, error) {
	switch word {
	case "start", "earliest", "beginning":
		return place{kind: atStart}, nil
	case "end", "latest":
		return place{kind: atEnd}, nil
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		if n < 0 {
			return place{kind: beforeEnd, n: -n}, nil
		}
		return place{kind: atOffset, n: n}, nil
	}
	if ms, ok := parseTime(word, now); ok {
		return place{kind: atTime, n: ms}, nil
	}
	return place{}, usagef(c, "--%s cannot be %q: it is %s", flag, word, strings.ReplaceAll(placeHelp, "\n", " "))
}

// timeLayouts are the ways to write a time, tried in this order.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
	"2006-01-02 15:04", time.DateOnly}

// parseTime reads now, an age, a time, or @ and milliseconds; the result is in milliseconds since 1970.
func parseTime(word string, now time.Time) (ms int64, ok bool) {
	if word == "now" {
		return now.UnixMilli(), true
	}
	if digits, found := strings.CutPrefix(word, "@"); found {
		n, err := strconv.ParseInt(digits, 10, 64)
		return n, err == nil && n >= 0
	}
	if age, ok := parseAge(word); ok {
		return now.Add(-age).UnixMilli(), true
	}
	for _, layout := range timeLayouts {
		if t, err := time.ParseInLocation(layout, word, now.Location()); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// parseAge reads -1h30m, with d for days added.
func parseAge(word string) (time.Duration, bool) {
	text, ok := strings.CutPrefix(word, "-")
	if !ok {
		return 0, false
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(number, 10, 16)
		return time.Duration(days) * 24 * time.Hour, err == nil
	}
	age, err := time.ParseDuration(text)
	return age, err == nil && age >= 0
}

// plural is a count with its noun.
func plural[N ~int | ~int32 | ~int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%s %ss", count(n), noun)
}
