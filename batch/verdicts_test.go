package batch

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVerdictsOfKafka checks Validate against what Kafka's own validator said to the same bytes (testdata says how). Where
// Kafka fails with an exception it did not mean to throw, ours may be any answer but a panic. Where Kafka accepts, we are
// stricter in these points, none of which a client has cause to send:
//
//   - attribute bits: a delete horizon, the log append time flag on a create time topic, bits the format does not define;
//   - a producer id without an epoch, a transaction without a producer id;
//   - a record of a compressed batch that names a codec;
//   - records that do not parse, which Kafka skips over unparsed when it only needs their offsets and timestamps;
//   - gzip headers with reserved flags.
//
// A format version that never existed is corrupt to Kafka, and to us of an unsupported format.
func TestVerdictsOfKafka(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka-verdicts.tsv")
	require.NoError(t, err)
	count := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		count++
		f := strings.Split(strings.TrimSpace(line), "\t")
		require.Len(t, f, 8)
		records, rules := verdictCase(t, f)
		requireVerdict(t, f, records, rules)
	}
	require.Greater(t, count, 100)
}

func verdictCase(t *testing.T, f []string) ([]byte, Rules) {
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		return n
	}
	rules := DefaultRules(goldenTime)
	rules.MaxMessageBytes = 300
	rules.Compacted = f[0] == "true"
	rules.TimestampType = TimestampType(number(f[1]))
	rules.BeforeMaxMs = number(f[2])
	if target := number(f[3]); target >= 0 {
		rules.Recompress, rules.TargetCodec = true, Codec(target)
	}
	records, err := hex.DecodeString(f[7])
	require.NoError(t, err)
	return records, rules
}

func requireVerdict(t *testing.T, f []string, records []byte, rules Rules) {
	result, err := Validate(records, rules)
	verdict, fields, stricter := f[4], f[5], f[6] == "stricter"
	if err != nil {
		kind := err.(*ValidationError).Kind
		if kind == InvalidTimestamp && Batch(records).Attributes().LogAppendTime() {
			return // one of the points above, before the records are looked at
		}
		switch verdict {
		case "OK":
			require.True(t, stricter, "%v: %s", err, f[7])
			require.Contains(t, []Kind{InvalidRecord, InvalidTimestamp}, kind)
		case "InvalidRecordException":
			require.Contains(t, []Kind{InvalidRecord, UnsupportedFormat}, kind, "%v: %s", err, f[7])
		case "CorruptRecordException":
			require.Contains(t, []Kind{Corrupt, UnsupportedFormat}, kind, "%v: %s", err, f[7])
		case "InvalidTimestampException":
			hidden := kind == InvalidRecord && len(err.(*ValidationError).RecordErrors) == 0 // by one of the points above
			require.True(t, kind == InvalidTimestamp || hidden, "%v: %s", err, f[7])
		case "RecordTooLargeException":
			require.Equal(t, TooLarge, kind, "%v: %s", err, f[7])
		default:
			require.Equal(t, "unexpected", verdict)
		}
		return
	}
	require.False(t, stricter, f[7])
	if verdict == "unexpected" {
		return
	}
	require.Equal(t, "OK", verdict, f[7])
	b := result.Batch
	if rules.TimestampType == LogAppendTime {
		b.StampAppendTime(rules.NowMs)
	}
	got := fmt.Sprintf("%d/%d/%d/%d/%d/%d", b.Count(), b.LastOffsetDelta(), b.MaxTimestamp(), b.Attributes(), b.ProducerID(), b.BaseSequence())
	if !result.Rebuilt { // then the bytes are the same, and so is the checksum
		require.Equal(t, fields, fmt.Sprintf("%s/%d", got, b.CRC()), f[7])
	} else if b.ProducerID() >= 0 { // a rebuilt batch without a producer carries no odd producer fields on
		require.True(t, strings.HasPrefix(fields, got+"/"), "%s, want %s: %s", got, fields, f[7])
	}
}
