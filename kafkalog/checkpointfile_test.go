package kafkalog

import (
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parsePairs reads a checkpoint of two fields an entry.
func parsePairs(text string) (pairs [][2]string, err error) {
	err = parseCheckpoint("x-checkpoint", []byte(text), 2, func(fields []string) error {
		pairs = append(pairs, [2]string{fields[0], fields[1]})
		return nil
	})
	return pairs, err
}

func TestACheckpointHasAVersionACountAndThatManyEntries(t *testing.T) {
	pairs, err := parsePairs("0\n3\n0 0\n1   50\n\t2 100 \n")
	require.NoError(t, err)
	require.Equal(t, [][2]string{{"0", "0"}, {"1", "50"}, {"2", "100"}}, pairs)
}

func TestACheckpointWithoutEntriesMayBeEmpty(t *testing.T) {
	for _, text := range []string{"", "0\n", "0", "0\n0\n", "0\n0"} {
		pairs, err := parsePairs(text)
		require.NoError(t, err, "%q", text)
		require.Empty(t, pairs, "%q", text)
	}
}

func TestADamagedCheckpointSaysWhere(t *testing.T) {
	for text, position := range map[string]int64{
		"\n":                   0,
		"x\n0\n":               0,
		"0\nx\n":               2,
		"0\n-1\n":              2,
		"0\n\n":                2,
		"0\n1\n":               2,
		"0\n2\n0 0\n":          4,
		"0\n0\n0 0\n":          4,
		"0\n1\n0 0\n\n":        8,
		"0\n1\n0\n":            4,
		"0\n1\n0 0 0\n":        4,
		"0\n2\n0 0\n1\n":       8,
		"0\n99999999999\n0 0":  2,
		"0\x00\n1\n0 0\n":      0,
		"\x00\x00\x00\x00\x00": 0,
	} {
		_, err := parsePairs(text)
		var corrupt *CorruptionError
		require.ErrorAs(t, err, &corrupt, "%q", text)
		require.Equal(t, "x-checkpoint", corrupt.Path)
		require.Equal(t, position, corrupt.Position, "%q: %v", text, err)
	}
}

func TestACheckpointOfAnotherVersionIsRefusedWithBothVersions(t *testing.T) {
	_, err := parsePairs("7\n1\n0 0\n")
	require.Equal(t, &UnsupportedVersionError{
		Artifact: "checkpoint", Path: "x-checkpoint", Found: 7, Supported: 0,
	}, err)
}

func TestTheLogStartFileIsTwoLines(t *testing.T) {
	fsys := newPartsFS(t)
	require.NoError(t, writeLogStart(fsys, partsDir, 42))
	require.Equal(t, formatBytes(t, "log-start-offset-checkpoint"), storedFile(t, fsys, partsDir+"/log-start-offset-checkpoint"))

	offset, found, err := readLogStart(fsys, partsDir)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 42, offset)
}

func TestAWrittenLogStartSurvivesAPowerCutOnReturn(t *testing.T) {
	fsys := newPartsFS(t)
	require.NoError(t, fsys.SyncDir("."))
	require.NoError(t, writeLogStart(fsys, partsDir, 42))
	require.NoError(t, writeLogStart(fsys, partsDir, 43))
	offset, found, err := readLogStart(fsys.CrashClean(), partsDir)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 43, offset)

	require.NoError(t, removeLogStart(fsys, partsDir))
	_, found, err = readLogStart(fsys.CrashClean(), partsDir)
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, removeLogStart(fsys, partsDir), "removing what is not there is fine")
}

func TestAMissingLogStartFileIsNoneAndADamagedOneAnError(t *testing.T) {
	fsys := newPartsFS(t)
	_, found, err := readLogStart(fsys, partsDir)
	require.NoError(t, err)
	require.False(t, found)

	for text, position := range map[string]int64{
		"": 0, "\n": 0, "x\n42\n": 0, "0\n": 2, "0": 1, "0\n\n": 2, "0\nx\n": 2, "0\n-42\n": 2, "0\n9223372036854775808\n": 2,
	} {
		storeFile(t, fsys, partsDir+"/"+logStartFileName, []byte(text))
		_, found, err := readLogStart(fsys, partsDir)
		var corrupt *CorruptionError
		require.ErrorAs(t, err, &corrupt, "%q", text)
		require.Equal(t, position, corrupt.Position, "%q", text)
		require.False(t, found)
	}
	storeFile(t, fsys, partsDir+"/"+logStartFileName, []byte("1\n42\n"))
	_, _, err = readLogStart(fsys, partsDir)
	var version *UnsupportedVersionError
	require.ErrorAs(t, err, &version)
}

func TestLinesAfterTheLogStartAreIgnored(t *testing.T) {
	offset, err := parseLogStart("x", []byte("0\n9223372036854775807\nanything\n"))
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64, offset)
}

func TestReplaceFileKeepsTheOldContentWhenAnyStepFails(t *testing.T) {
	for _, op := range []string{"open", "write", "sync", "close", "rename"} {
		fsys := &probeFS{FS: newPartsFS(t)}
		name := partsDir + "/x"
		require.NoError(t, replaceFile(fsys, name, []byte("old")))
		fsys.failOnce(op)
		err := replaceFile(fsys, name, []byte("new content"))
		require.ErrorIs(t, err, errInjected, op)
		require.ErrorIs(t, err, ErrStorage, op)
		require.Equal(t, "old", string(storedFile(t, fsys, name)), op)
		require.NoError(t, replaceFile(fsys, name, []byte("new")), op)
		require.Equal(t, "new", string(storedFile(t, fsys, name)), op)
		require.Zero(t, fsys.open.Load(), op)
		_, err = fsys.Stat(name + tempSuffix)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

func FuzzParseLogStart(f *testing.F) {
	f.Add([]byte("0\n42\n"))
	f.Add([]byte("0\n"))
	f.Add([]byte("1\n42\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		offset, err := parseLogStart("x", data)
		if err != nil {
			require.True(t, damaged(err), "%v", err)
			return
		}
		again, err := parseLogStart("x", formatLogStart(offset))
		require.NoError(t, err)
		require.Equal(t, offset, again)
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add("0\n3\n0 0\n1 50\n2 100\n")
	f.Add("0\n1\norders 3\n")
	f.Add("0\n")
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := parsePairs(text)
		if err != nil {
			require.True(t, damaged(err), "%v", err)
			return
		}
		formatted := formatCheckpoint(len(pairs), func(dst []byte, i int) []byte {
			return append(dst, strings.Join(pairs[i][:], " ")...)
		})
		again, err := parsePairs(string(formatted))
		require.NoError(t, err)
		require.Equal(t, pairs, again)
	})
}
