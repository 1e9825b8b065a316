package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSummaryOfACheckSaysWhatToDoNext(t *testing.T) {
	partition := func(problems, repairs int, loses bool) checkedLog {
		return checkedLog{
			Segments: 2, Batches: 3, Records: 4, Bytes: 500, loses: loses,
			Problems: make([]string, problems), Repairs: make([]string, repairs),
		}
	}
	shared := checkedLog{shared: true, Bytes: 1 << 20, Repairs: make([]string, 1)}
	for name, test := range map[string]struct {
		checked     []checkedLog
		text, wrong string
	}{
		"nothing": {nil, "checked 0 partitions: 0 segments, 0 batches, 0 records, 0 B\nfound nothing wrong\n", ""},
		"sound": {[]checkedLog{partition(0, 0, false), partition(0, 0, false)},
			"checked 2 partitions: 4 segments, 6 batches, 8 records, 1000 B\nfound nothing wrong\n", ""},
		"a note": {[]checkedLog{{Notes: make([]string, 1)}},
			"checked 1 partition: 0 segments, 0 batches, 0 records, 0 B\nfound nothing wrong; 1 note\n", ""},
		"a torn end": {[]checkedLog{partition(0, 1, false), partition(0, 0, false)},
			"checked 2 partitions: 4 segments, 6 batches, 8 records, 1000 B\nfound 1 fault that a start repairs, 0 that it does not\n",
			"1 of 2 partitions not sound; the next start of the server repairs that: 'tidemark log repair a b' shows how, and changes nothing without --apply"},
		"a torn end before intact batches": {[]checkedLog{partition(0, 1, true)},
			"checked 1 partition: 2 segments, 3 batches, 4 records, 500 B\nfound 1 fault that a start repairs, 0 that it does not\n",
			"1 of 1 partition not sound; repair before the server starts: 'tidemark log repair a b' shows how, and changes nothing without --apply"},
		"damage": {[]checkedLog{partition(3, 2, false), shared},
			"checked 1 partition: 2 segments, 3 batches, 4 records, 500 B\nfound 3 faults that a start repairs, 3 that it does not\n",
			"1 of 1 partition and 1 shared file not sound; repair before the server starts: 'tidemark log repair a b' shows how, and changes nothing without --apply"},
		"a damaged checkpoint": {[]checkedLog{partition(0, 0, false), shared},
			"checked 1 partition: 2 segments, 3 batches, 4 records, 500 B\nfound 1 fault that a start repairs, 0 that it does not\n",
			"1 shared file not sound; the next start of the server repairs that"},
		"a damaged journal": {[]checkedLog{{shared: true, Problems: make([]string, 1)}},
			"checked 0 partitions: 0 segments, 0 batches, 0 records, 0 B\nfound 0 faults that a start repairs, 1 that it does not\n",
			"1 shared file not sound; each problem above says what to do"},
	} {
		t.Run(name, func(t *testing.T) {
			run := checkRun{checked: test.checked}
			s := run.summary([]string{"a", "b"})
			require.Equal(t, test.text, s.text())
			if err := s.err(); test.wrong == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.wrong)
			}
		})
	}
}

// TestTheSummaryOfACheckIsInTheJSONToo has a partition whose last batch is torn.
func TestTheSummaryOfACheckIsInTheJSONToo(t *testing.T) {
	dataDir := storedLines(t, "zero", "one", "two")
	for _, name := range []string{".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"} {
		require.NoError(t, os.Remove(filepath.Join(dataDir, name)))
	}
	segment := filepath.Join(dataDir, "t-0", "00000000000000000000.log")
	data := onDisk(t, segment)
	require.NoError(t, os.Truncate(segment, int64(len(data)-1)))

	got := tidemark(t, "", "log", "check", dataDir, "-o", "json")
	require.Equal(t, ExitFailed, got.Code)
	var out checkOutput
	require.NoError(t, json.Unmarshal([]byte(got.Out), &out))
	require.Positive(t, out.Summary.Bytes)
	require.Contains(t, out.Summary.Next, "the next start of the server repairs that")
	require.Contains(t, got.Err, "1 of 1 partition not sound; "+out.Summary.Next)
	out.Summary.Bytes, out.Summary.Next = 0, ""
	require.Equal(t, checkSummary{Partitions: 1, Segments: 1, Batches: 2, Records: 2, Unsound: 1, Repairs: 1}, out.Summary)
}
