package command

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestFormatsAreThoseOfKcat(t *testing.T) {
	full := &kgo.Record{
		Topic: "orders", Partition: 3, Offset: 42, Timestamp: time.UnixMilli(1700000000123), Key: []byte("k"), Value: []byte("val"),
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}},
	}
	null := &kgo.Record{Topic: "t"}
	for _, test := range []struct {
		format, null string
		record       *kgo.Record
		want         string
	}{
		{`%s\n`, "", full, "val\n"},
		{`%t %p %o %T %k=%s %K/%S %h%%`, "", full, "orders 3 42 1700000000123 k=val 1/3 a=1,b=%"},
		{`%h`, "NULL", full, "a=1,b=NULL"},
		{`%R%s`, "", full, "\x00\x00\x00\x03val"},
		{`[%k][%s] %K %S`, "", null, "[][] -1 -1"},
		{`[%k][%s]`, "NULL", null, "[NULL][NULL]"},
		{`%R`, "", null, "\xff\xff\xff\xff"},
		{`\t\r\0\\\x41\x7e`, "", full, "\t\r\x00\\A~"},
		{``, "", full, ""},
	} {
		format, err := parseFormat(test.format, test.null)
		require.NoError(t, err, test.format)
		require.Equal(t, test.want, string(format.append(nil, test.record)), test.format)
	}
	for text, want := range map[string]string{
		`%`: "single %", `%q`: "%q is not known", `\`: `single \`, `\q`: `\q is not known`, `\x4`: `\x is not known`, `\xzz`: `\x is not known`,
	} {
		_, err := parseFormat(text, "")
		require.ErrorContains(t, err, want, text)
	}
}

func TestAJSONRecordIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]*kgo.Record{
		`{}`:                                   {Partition: -1},
		`{"key":null,"value":"v"}`:             {Partition: -1, Value: []byte("v")},
		`{"value":""}`:                         {Partition: -1, Value: []byte{}},
		`{"value":{"a":[1, 2]}}`:               {Partition: -1, Value: []byte(`{"a":[1, 2]}`)},
		`{"value":12,"key":true}`:              {Partition: -1, Key: []byte("true"), Value: []byte("12")},
		`{"value":null,"value_base64":"/w=="}`: {Partition: -1, Value: []byte{0xff}},
		`{"partition":2,"timestamp":1700000000123,"offset":9,"headers":[{"name":"a","value":"1"},{"name":"b","value":null}]}`: {
			Partition: 2, Timestamp: time.UnixMilli(1700000000123),
			Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}},
		},
	} {
		got, err := parseJSONRecord([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := parseJSONRecord([]byte(`[1]`))
	require.ErrorContains(t, err, "a record is no JSON object")
}

func TestProgressFillsALineOnATerminalAndOtherwiseTellsTheEnd(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	var plain strings.Builder
	p := &progress{w: &plain, label: "done", total: 1000, unit: count[int64], now: clock, start: now}
	now = now.Add(2 * time.Second)
	p.set(500)
	require.Empty(t, plain.String())
	p.finish(1000)
	require.Equal(t, "done       "+strings.Repeat("█", 30)+" 1,000 / 1,000  500/s\n", plain.String())

	var terminal strings.Builder
	now = time.Unix(0, 0)
	p = &progress{w: &terminal, terminal: true, label: "done", total: 1000, unit: count[int64], now: clock, start: now}
	now = now.Add(time.Second)
	p.set(500)
	p.set(501) // too soon to be drawn
	now = now.Add(time.Second)
	p.finish(1000)
	require.Equal(t, "\rdone       "+strings.Repeat("█", 15)+strings.Repeat("░", 15)+" 500 / 1,000  500/s"+
		"\rdone       "+strings.Repeat("█", 30)+" 1,000 / 1,000  500/s\n", terminal.String())
}
