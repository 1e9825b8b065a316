package batch

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample are records with everything that a record can have.
func sample() []Record {
	return []Record{
		{Offset: 0, Timestamp: goldenTime, Key: []byte("k"), Value: []byte("v")},
		{Offset: 1, Timestamp: goldenTime - 70000, Key: []byte{}, Value: []byte{}},
		{Offset: 2, Timestamp: -1},
		{Offset: 3, Timestamp: goldenTime + 9, Value: bytes.Repeat([]byte("abc"), 3000), Headers: []RecordHeader{
			{Key: "same", Value: []byte("1")}, {Key: "same"}, {Key: "", Value: []byte{}},
		}},
		{Offset: 4, Timestamp: goldenTime + 10, Key: []byte("last"), Headers: []RecordHeader{{Key: "same", Value: []byte("2")}}},
	}
}

func build(t testing.TB, o BuilderOptions, records []Record) Batch {
	t.Helper()
	builder := NewBuilder(o)
	for _, r := range records {
		builder.AddAt(r.Offset, r.Timestamp, r.Key, r.Value, r.Headers...)
	}
	b, err := builder.Build()
	require.NoError(t, err)
	return b
}

// rawRecords returns the encoded records of an uncompressed batch.
func rawRecords(t testing.TB, records []Record) []byte {
	return build(t, BuilderOptions{}, records).Payload()
}

// compressed returns the bytes that our encoder makes of records.
func compressed(t testing.TB, codec Codec, records []Record) []byte {
	return build(t, BuilderOptions{Codec: codec}, records).Payload()
}

// sampleHeader is the header of a batch of the sample records.
func sampleHeader(codec Codec) Header {
	return Header{
		Attributes: Attributes(codec), LastOffsetDelta: 4, BaseTimestamp: goldenTime, MaxTimestamp: goldenTime + 10,
		LeaderEpoch: -1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1, Count: 5,
	}
}

func TestEveryCodecReadsWhatItWrote(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := build(t, BuilderOptions{Codec: codec}, sample())
		require.NoError(t, b.VerifyCRC())
		require.Equal(t, codec, b.Attributes().Codec())
		require.Equal(t, int64(goldenTime+10), b.MaxTimestamp())
		require.Equal(t, sample(), all(t, b, Limits{}), codec)
	}
}

func TestReaderIsReusedAcrossBatches(t *testing.T) {
	var r RecordReader
	require.False(t, r.Next(), "the zero value reads nothing")
	require.NoError(t, r.Err())
	for range 3 {
		for codec := None; codec <= Zstd; codec++ {
			r.Reset(build(t, BuilderOptions{Codec: codec}, sample()), Limits{})
			var got []Record
			for r.Next() {
				got = append(got, clone(r.Record()))
			}
			require.NoError(t, r.Err())
			require.Equal(t, sample(), got)
			require.False(t, r.Next(), "the end is the end")
		}
	}
	r.Close()
	r.Close()
	require.False(t, r.Next())
}

func TestReaderStopsAnywhere(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := build(t, BuilderOptions{Codec: codec}, sample())
		for n := range len(sample()) {
			r := b.Records(Limits{})
			for range n {
				require.True(t, r.Next())
			}
			r.Close()
			require.NoError(t, r.Err())
			require.False(t, r.Next())
		}
	}
}

func TestReaderSharesHeaderKeys(t *testing.T) {
	b := build(t, BuilderOptions{}, sample())
	r := b.Records(Limits{})
	defer r.Close()
	var kept []string
	for r.Next() {
		for _, h := range r.Record().Headers {
			kept = append(kept, h.Key)
		}
	}
	require.Equal(t, []string{"same", "same", "", "same"}, kept, "keys outlive the record")
}

func TestRecordsThatDoNotParse(t *testing.T) {
	record := func(body ...byte) []byte { return append(appendVarint32(nil, int32(len(body))), body...) }
	good := record(0, 0, 0, 1, 1, 0)
	for name, c := range map[string]struct {
		payload []byte
		count   int32
		index   int32
		err     error
	}{
		"no record where one is counted":    {nil, 1, 0, errRecordMissing},
		"fewer records than counted":        {good, 2, 1, errRecordMissing},
		"more records than counted":         {append(record(0, 0, 0, 1, 1, 0), good...), 1, 1, errRecordsExtra},
		"a length that does not end":        {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 1, 0, errVarint},
		"a length cut off":                  {[]byte{0xff}, 1, 0, errRecordMissing},
		"a negative length":                 {[]byte{0x01}, 1, 0, errRecordLength},
		"a length beyond the payload":       {good[:len(good)-1], 1, 0, errRecordLength},
		"a length of two gigabytes":         {[]byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00}, 1, 0, errRecordLength},
		"no attributes":                     {record(), 1, 0, errRecordShort},
		"no timestamp":                      {record(0), 1, 0, errRecordShort},
		"no offset":                         {record(0, 0), 1, 0, errRecordShort},
		"no key length":                     {record(0, 0, 0), 1, 0, errRecordShort},
		"no value length":                   {record(0, 0, 0, 1), 1, 0, errRecordShort},
		"no header count":                   {record(0, 0, 0, 1, 1), 1, 0, errRecordShort},
		"a key longer than the record":      {record(0, 0, 0, 6, 'k', 1, 0), 1, 0, errRecordShort},
		"a value longer than the record":    {record(0, 0, 0, 1, 6, 'v', 0), 1, 0, errRecordShort},
		"a negative header count":           {record(0, 0, 0, 1, 1, 1), 1, 0, errHeaderCount},
		"more headers than bytes":           {record(0, 0, 0, 1, 1, 6, 0, 1), 1, 0, errHeaderCount},
		"a header without a key":            {record(0, 0, 0, 1, 1, 2, 1, 1), 1, 0, errHeaderKey},
		"a header key longer than the rest": {record(0, 0, 0, 1, 1, 2, 8, 'h', 1), 1, 0, errRecordShort},
		"a header value cut off":            {record(0, 0, 0, 1, 1, 2, 2, 'h', 2), 1, 0, errRecordShort},
		"bytes behind the last field":       {record(0, 0, 0, 1, 1, 0, 0), 1, 0, errRecordLong},
		"bytes behind the last header":      {record(0, 0, 0, 1, 1, 2, 2, 'h', 1, 0), 1, 0, errRecordLong},
		"a timestamp that does not end":     {record(0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1), 1, 0, errVarint},
		"a negative count":                  {nil, -1, 0, errRecordCount},
	} {
		h := Header{LastOffsetDelta: max(c.count-1, 0), Count: c.count}
		_, err := collect(withPayload(h, c.payload), Limits{})
		var decode *DecodeError
		require.ErrorAs(t, err, &decode, name)
		require.Equal(t, c.index, decode.Index, name)
		require.Equal(t, c.err, decode.Err, name)
	}
}

func TestNegativeLengthsAreNull(t *testing.T) {
	payload := []byte{6 << 1, 0, 0, 0, 5, 9, 0} // key length -3, value length -5
	records := all(t, withPayload(Header{Count: 1}, payload), Limits{})
	require.Equal(t, []Record{{}}, records)
}

func TestRecordAboveTheLimitIsRefusedBeforeItIsRead(t *testing.T) {
	records := []Record{
		{Offset: 0, Timestamp: 1, Value: []byte("small")},
		{Offset: 1, Timestamp: 1, Value: make([]byte, 1<<20)},
	}
	limit := Limits{MaxRecordBytes: 1000}
	for codec := Gzip; codec <= Zstd; codec++ {
		b := build(t, BuilderOptions{Codec: codec}, records)
		got, err := collect(b, limit)
		require.Equal(t, records[:1], got, "a reader that stops before the large record does not meet it")
		require.Equal(t, &DecodeError{Index: 1, Err: &RecordTooLargeError{Size: 1<<20 + 9, Limit: 1000}}, err, codec)

		got, err = collect(b, Limits{MaxRecordBytes: 1<<20 + 9})
		require.NoError(t, err)
		require.Equal(t, records, got)
	}
	require.Equal(t, records, all(t, build(t, BuilderOptions{}, records), limit), "uncompressed records have no limit")
}

func TestDecompressedBytesAreLimitedInAll(t *testing.T) {
	var records []Record
	for i := range int64(300) {
		records = append(records, Record{Offset: i, Timestamp: 1, Value: make([]byte, 1000)})
	}
	raw := int64(len(rawRecords(t, records)))
	for codec := Gzip; codec <= Zstd; codec++ {
		b := build(t, BuilderOptions{Codec: codec}, records)
		require.Equal(t, records, all(t, b, Limits{MaxDecompressedBytes: raw}), codec)

		_, err := collect(b, Limits{MaxDecompressedBytes: raw - 1})
		var large *DecompressedTooLargeError
		require.ErrorAs(t, err, &large, codec)
		require.Equal(t, raw-1, large.Limit)
	}
}

func TestLogAppendTimeReplacesEveryTimestamp(t *testing.T) {
	b := build(t, BuilderOptions{TimestampType: LogAppendTime, AppendTime: 99, Codec: LZ4}, sample())
	require.True(t, b.Attributes().LogAppendTime())
	require.Equal(t, int64(99), b.MaxTimestamp())
	for _, r := range all(t, b, Limits{}) {
		require.Equal(t, int64(99), r.Timestamp)
	}
}

func TestUnknownCodecIsAnErrorOfTheRecordsOnly(t *testing.T) {
	for id := Codec(5); id <= 7; id++ {
		b := withPayload(sampleHeader(id), rawRecords(t, sample()))
		_, _, err := Next(b)
		require.NoError(t, err)
		require.NoError(t, b.VerifyCRC())
		_, err = collect(b, Limits{})
		require.Equal(t, &DecodeError{Err: &UnknownCodecError{ID: id}}, err)
	}
}
