package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// place is where a reader begins or ends, or where a group is set to. All commands accept the same words.
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
	atTime    placeKind = 5 // the first record at or after it
)

// placeHelp says what a PLACE may be, for help texts.
const placeHelp = `A PLACE is ` + placeWords

// placeWords are the ways to write a place.
const placeWords = `start or earliest, end or latest, an offset (4711), a number of records before the end (-10), an age
(-1h, -7d), now, a time (2026-01-31, 2026-01-31T08:00, 2026-01-31T08:00:00Z; local unless it names a zone) or milliseconds
since 1970 (@1769846400000). A time stands for the first record that is not older.`

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
	return place{}, usagef(c, "--%s cannot be %q: it is %s", flag, word, strings.ReplaceAll(placeWords, "\n", " "))
}

// timeLayouts are the ways to write a time, tried in this order.
var timeLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
	"2006-01-02 15:04", time.DateOnly}

// parseTime parses now, an age, a time, or @ and milliseconds; the result is in milliseconds since 1970.
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

// parseAge parses -1h30m, with d for days added.
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

// resolve turns a place into an offset in each partition. An explicit offset is used as it is, even outside of the
// readable range; every other place resolves to an offset inside it.
func (p place) resolve(ctx context.Context, kc *kgo.Client, topic string, readable map[int32]extent) (map[int32]int64, error) {
	out := make(map[int32]int64, len(readable))
	for partition, e := range readable {
		switch p.kind {
		case atStart:
			out[partition] = e.Start
		case atEnd:
			out[partition] = e.End
		case atOffset:
			out[partition] = p.n
		case beforeEnd:
			out[partition] = max(e.Start, e.End-p.n)
		}
	}
	if p.kind != atTime {
		return out, nil
	}
	found, err := listOffsets(ctx, kc, topic, slices.Sorted(maps.Keys(readable)), p.n, false)
	if err != nil {
		return nil, err
	}
	for partition, e := range readable {
		out[partition] = e.End
		if at := found[partition]; at >= 0 {
			out[partition] = min(max(at, e.Start), e.End)
		}
	}
	return out, nil
}

// checkOffset refuses an offset that no partition has reached, instead of waiting for it silently.
func checkOffset(topic string, p place, readable map[int32]extent) error {
	if p.kind != atOffset {
		return nil
	}
	var furthest int64
	for _, e := range readable {
		furthest = max(furthest, e.End)
	}
	if p.n > furthest {
		return fmt.Errorf("topic %q: offset %d is beyond the end, which is %d", topic, p.n, furthest)
	}
	return nil
}
