package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonRecord is one line of `consume --output json` and, with fewer fields, of `produce --input json`. Key and value are
// null when null; bytes that are not UTF-8 are base64 in the field with that name.
type jsonRecord struct {
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"timestamp"`
	Key         *string      `json:"key"`
	KeyBase64   []byte       `json:"key_base64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 []byte       `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
	Bytes []byte  `json:"value_base64,omitempty"`
}

func newJSONRecord(r *kgo.Record) jsonRecord {
	j := jsonRecord{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli()}
	j.Key, j.KeyBase64 = textOrBytes(r.Key)
	j.Value, j.ValueBase64 = textOrBytes(r.Value)
	for _, h := range r.Headers {
		header := jsonHeader{Name: h.Key}
		header.Value, header.Bytes = textOrBytes(h.Value)
		j.Headers = append(j.Headers, header)
	}
	return j
}

func textOrBytes(b []byte) (*string, []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	s := string(b)
	return &s, nil
}

// jsonInput is a record as `produce --input json` reads it. A key or value that is neither text nor null is stored as its
// JSON text.
type jsonInput struct {
	Partition   *int32            `json:"partition"`
	Timestamp   *int64            `json:"timestamp"`
	Key         json.RawMessage   `json:"key"`
	KeyBase64   []byte            `json:"key_base64"`
	Value       json.RawMessage   `json:"value"`
	ValueBase64 []byte            `json:"value_base64"`
	Headers     []jsonInputHeader `json:"headers"`
}

type jsonInputHeader struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Bytes []byte          `json:"value_base64"`
}

// parseJSONRecord parses one JSON object. The partition is -1 when it names none.
func parseJSONRecord(text []byte) (*kgo.Record, error) {
	var in jsonInput
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("a record is no JSON object with key, value, headers, timestamp and partition: %w", err)
	}
	r := &kgo.Record{Partition: -1, Key: bytesOf(in.Key, in.KeyBase64), Value: bytesOf(in.Value, in.ValueBase64)}
	if in.Partition != nil {
		r.Partition = *in.Partition
	}
	if in.Timestamp != nil {
		r.Timestamp = time.UnixMilli(*in.Timestamp)
	}
	for _, h := range in.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: bytesOf(h.Value, h.Bytes)})
	}
	return r, nil
}

// bytesOf returns the bytes of a JSON value: the text of a string, nil for null or nothing, otherwise its JSON text.
func bytesOf(raw json.RawMessage, base64 []byte) []byte {
	raw = bytes.TrimSpace(raw)
	switch {
	case base64 != nil:
		return base64
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case raw[0] == '"':
		var text string
		_ = json.Unmarshal(raw, &text) // it was parsed as part of the record
		return []byte(text)
	}
	return raw
}
