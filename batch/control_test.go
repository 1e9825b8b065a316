package batch

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseControl(t *testing.T) {
	abort := []byte{0, 0, 0, 0}
	for name, c := range map[string]struct {
		key, value []byte
		want       ControlRecord
		err        error
	}{
		"abort":                    {abort, []byte{0, 0, 0, 0, 0, 7}, ControlRecord{Abort, 7}, nil},
		"commit":                   {[]byte{0, 0, 0, 1}, []byte{0, 0, 0xff, 0xff, 0xff, 0xff}, ControlRecord{Commit, -1}, nil},
		"newer and longer":         {[]byte{0, 9, 0, 1, 5, 5}, []byte{0x7f, 0xff, 0, 0, 1, 0, 8}, ControlRecord{Commit, 256}, nil},
		"leader change":            {[]byte{0, 0, 0, 2}, nil, ControlRecord{2, -1}, nil},
		"barrier, value not read":  {[]byte{0, 0, 3, 0xe8}, []byte{1}, ControlRecord{1000, -1}, nil},
		"null key":                 {nil, nil, ControlRecord{}, &ControlSizeError{"key", 4, 0}},
		"short key":                {[]byte{0, 0, 0}, nil, ControlRecord{}, &ControlSizeError{"key", 4, 3}},
		"short key of bad version": {[]byte{0xff, 0xff, 0}, nil, ControlRecord{}, &ControlSizeError{"key", 4, 3}},
		"negative key version":     {[]byte{0xff, 0xff, 0, 0}, nil, ControlRecord{}, &ControlVersionError{"key", -1}},
		"no value":                 {abort, nil, ControlRecord{}, &ControlSizeError{"end marker value", 6, 0}},
		"short value":              {abort, []byte{0, 0, 0, 0, 0}, ControlRecord{}, &ControlSizeError{"end marker value", 6, 5}},
		"negative value version":   {abort, []byte{0x80, 0, 0, 0, 0, 0}, ControlRecord{}, &ControlVersionError{"end marker value", math.MinInt16}},
	} {
		got, err := ParseControl(c.key, c.value)
		require.Equal(t, c.err, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestControlOfABatch(t *testing.T) {
	_, ok, err := golden(t, "two-records").Control()
	require.NoError(t, err)
	require.False(t, ok, "a data batch has no control record")

	empty := RetainEmpty(golden(t, "abort-marker").Header())
	require.True(t, empty.Attributes().Control())
	_, ok, err = empty.Control()
	require.NoError(t, err)
	require.False(t, ok, "an empty control batch says nothing")

	short := NewBuilder(BuilderOptions{Control: true, Transactional: true})
	short.Add(1, []byte{0, 0, 0}, nil)
	b, err := short.Build()
	require.NoError(t, err)
	_, ok, err = b.Control()
	require.False(t, ok)
	require.Equal(t, &ControlSizeError{"key", 4, 3}, err)

	broken := withPayload(Header{Attributes: attrControl, Count: 1}, []byte{1})
	_, ok, err = broken.Control()
	require.False(t, ok)
	require.Equal(t, &DecodeError{Err: errRecordLength}, err)
}

func TestControlOfACompressedBatchIsBounded(t *testing.T) {
	o := BuilderOptions{Control: true, Codec: Zstd}
	small := NewBuilder(o)
	small.Add(1, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 3})
	b, err := small.Build()
	require.NoError(t, err)
	c, ok, err := b.Control()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, ControlRecord{Commit, 3}, c)

	bomb := NewBuilder(o)
	bomb.Add(1, make([]byte, 10<<20), nil)
	b, err = bomb.Build()
	require.NoError(t, err)
	_, ok, err = b.Control()
	require.False(t, ok)
	var large *RecordTooLargeError
	require.ErrorAs(t, err, &large)
}

func TestControlTypeNames(t *testing.T) {
	require.Equal(t, "abort", Abort.String())
	require.Equal(t, "commit", Commit.String())
	require.Equal(t, "control(1000)", ControlType(1000).String())
}
