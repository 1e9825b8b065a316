package kafkalog

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileNamesHaveTwentyDigits(t *testing.T) {
	require.Equal(t, "00000000000000000000.log", fileName(0, logSuffix))
	require.Equal(t, "00000000000000001847.timeindex", fileName(1847, timeIndexSuffix))
	require.Equal(t, "09223372036854775807.snapshot", fileName(math.MaxInt64, snapshotSuffix))
	require.Equal(t, "orders-0/00000000000000000042.txnindex", filePath("orders-0", 42, txnIndexSuffix))
}

func TestParseOffsetTakesTheNumberBeforeTheFirstDot(t *testing.T) {
	for name, want := range map[string]int64{
		"00000000000000000042.log":                42,
		"00000000000000000042.log.deleted":        42,
		"00000000000000000042.timeindex.swap":     42,
		"00000000000000000042.snapshot.deleted":   42,
		"09223372036854775807.index":              math.MaxInt64,
		"00000000000000000000.stampindex.cleaned": 0,
	} {
		offset, ok := parseOffset(name)
		require.True(t, ok, name)
		require.Equal(t, want, offset, name)
	}
	for _, name := range []string{
		"", ".", ".log", "log", "42.log", "000000000000000000042.log", "0000000000000000004.log", "-0000000000000000042.log",
		"+0000000000000000042.log", "0000000000000000004a.log", "09223372036854775808.log", "18446744073709551616.log",
		"99999999999999999999.log", "21000000000000000000.log", "00000000000000000042", "leader-epoch-checkpoint", "partition.metadata",
	} {
		_, ok := parseOffset(name)
		require.False(t, ok, name)
	}
}

func TestALogFileWhoseNameIsNoOffsetIsAnError(t *testing.T) {
	base, err := parseLogName("00000000000000001847.log")
	require.NoError(t, err)
	require.EqualValues(t, 1847, base)

	for _, name := range []string{"backup.log", "42.log", "00000000000000001847.old.log", "-0000000000000000001.log", ".log"} {
		_, err := parseLogName(name)
		var wrong *SegmentNameError
		require.ErrorAs(t, err, &wrong, name)
		require.Equal(t, name, wrong.Name)
	}
}

func TestSnapshotNames(t *testing.T) {
	offset, ok := parseSnapshotName("00000000000000000046.snapshot")
	require.True(t, ok)
	require.EqualValues(t, 46, offset)
	for _, name := range []string{"46.snapshot", "00000000000000000046.snapshot.deleted", "00000000000000000046.log"} {
		_, ok := parseSnapshotName(name)
		require.False(t, ok, name)
	}
}

func TestKindsOfFilesAreKnownByTheirEnding(t *testing.T) {
	require.True(t, isLogName("x.log"))
	require.False(t, isLogName("x.log.deleted"))
	for _, name := range []string{"x.index", "x.timeindex", "x.txnindex"} {
		require.True(t, isIndexName(name), name)
	}
	for _, name := range []string{"x.log", "x.snapshot", "x.index.swap", "index"} {
		require.False(t, isIndexName(name), name)
	}
}

func FuzzParseOffset(f *testing.F) {
	f.Add("00000000000000000042.log")
	f.Add("09223372036854775808.log")
	f.Fuzz(func(t *testing.T, name string) {
		offset, ok := parseOffset(name)
		if ok {
			require.GreaterOrEqual(t, offset, int64(0))
			require.Equal(t, fileName(offset, name[offsetDigits:]), name)
		}
	})
}
