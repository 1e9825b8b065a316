package command

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestPlacesAreWrittenInManyWays(t *testing.T) {
	zone := time.FixedZone("there", 2*60*60)
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, zone)
	at := func(year int, month time.Month, day, hour, minute, second int) int64 {
		return time.Date(year, month, day, hour, minute, second, 0, zone).UnixMilli()
	}
	for word, want := range map[string]place{
		"start": {kind: atStart}, "earliest": {kind: atStart}, "beginning": {kind: atStart},
		"end": {kind: atEnd}, "latest": {kind: atEnd},
		"0": {kind: atOffset}, "4711": {kind: atOffset, n: 4711}, "-10": {kind: beforeEnd, n: 10},
		"now": {atTime, now.UnixMilli()}, "@1769846400000": {atTime, 1769846400000},
		"-1h": {atTime, at(2026, 3, 10, 11, 0, 0)}, "-90m": {atTime, at(2026, 3, 10, 10, 30, 0)},
		"-7d":                  {atTime, at(2026, 3, 3, 12, 0, 0)},
		"2026-01-31":           {atTime, at(2026, 1, 31, 0, 0, 0)},
		"2026-01-31T08:15":     {atTime, at(2026, 1, 31, 8, 15, 0)},
		"2026-01-31 08:15":     {atTime, at(2026, 1, 31, 8, 15, 0)},
		"2026-01-31 08:15:30":  {atTime, at(2026, 1, 31, 8, 15, 30)},
		"2026-01-31T08:15:30":  {atTime, at(2026, 1, 31, 8, 15, 30)},
		"2026-01-31T06:15:30Z": {atTime, at(2026, 1, 31, 8, 15, 30)},
	} {
		got, err := parsePlace(&cobra.Command{}, "from", word, now)
		require.NoError(t, err, word)
		require.Equal(t, want, got, word)
	}
	for _, word := range []string{"", "tomorrow", "1h", "+1h", "-d", "@", "@-1", "@x", "2026-13-01", "-1y", "1.5", "--1h"} {
		_, err := parsePlace(&cobra.Command{}, "from", word, now)
		require.Error(t, err, word)
		require.True(t, isUsage(err), word)
	}
}

func TestCountsHaveTheirNoun(t *testing.T) {
	require.Equal(t, []string{"0 members", "1 member", "1,234 members"},
		[]string{plural(0, "member"), plural(1, "member"), plural(1234, "member")})
}
