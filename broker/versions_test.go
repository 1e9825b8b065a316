package broker

import (
	"encoding/binary"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// absentKeys reads the table of absent.md.
func absentKeys(t *testing.T) map[int16]string {
	t.Helper()
	text, err := os.ReadFile("absent.md")
	require.NoError(t, err)
	keys := map[int16]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| (\w+) \| (A|B|C|D|never) \| .+ \|$`).FindAllStringSubmatch(string(text), -1) {
		key, err := strconv.ParseInt(m[1], 10, 16)
		require.NoError(t, err)
		require.NotContains(t, keys, int16(key), "twice")
		keys[int16(key)] = m[2]
	}
	return keys
}

func TestEveryKeyIsServedOrAbsent(t *testing.T) {
	absent := absentKeys(t)
	served := map[int16]api{}
	for _, a := range apiTable() {
		require.NotContains(t, served, a.key, "twice")
		served[a.key] = a
	}
	require.Equal(t, int16(94), int16(kmsg.MaxKey), "a new kmsg has new keys: extend the table")
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		name := kmsg.NameForKey(key)
		if key == 45 {
			name = "AlterPartitionReassignments" // kmsg has a name of its own
		}
		_, isServed := served[key]
		_, isAbsent := absent[key]
		require.NotEqual(t, isServed, isAbsent, "%d %s is served or absent, not both and not neither", key, name)
		if isServed {
			require.True(t, strings.EqualFold(name, served[key].name), "%s, %s", name, served[key].name)
		} else {
			require.True(t, strings.EqualFold(name, absent[key]), "%s, %s", name, absent[key])
		}
	}
	require.Len(t, absent, int(kmsg.MaxKey)+1-len(served))
}

func TestTheTableAgreesWithKmsg(t *testing.T) {
	for _, a := range apiTable() {
		req := kmsg.RequestForKey(a.key)
		require.Equal(t, req.MaxVersion(), a.max, a.name)
		require.LessOrEqual(t, a.min, a.served)
		for version := int16(0); version <= a.max; version++ {
			req.SetVersion(version)
			require.Equal(t, req.IsFlexible(), a.isFlexible(version), "%s version %d", a.name, version)
		}
	}
}

func TestT01_ProduceIsListedFromZeroAndServedFromThree(t *testing.T) {
	for _, a := range apiTable() {
		if a.key == produceKey {
			require.Equal(t, []int16{0, 3, 13}, []int16{a.min, a.served, a.max})
		} else {
			require.Equal(t, a.min, a.served)
		}
	}
}

// sample is a request of the given version that is well-formed and asks for something that exists.
func sample(key, version int16, topic *Topic) kmsg.Request {
	switch key {
	case 0:
		return produceTo(version, topic, 0, -1, records("x"))
	case 1:
		return fetchFrom(version, topic, 0, 0)
	case 2:
		return listRequest(version, topic.Name, -1)
	case 3:
		return metadataOf(version, false, topic.Name)
	case 19:
		return createRequest(version, newTopicRequest("new"+strconv.Itoa(int(version)), 1, 1))
	case 20:
		return deleteByName(version, "new"+strconv.Itoa(int(version+1)))
	}
	if req := groupSample(key, version, topic); req != nil {
		return req
	}
	if req := sampleAdmin(key, version, topic); req != nil {
		return req
	}
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "name", "1"
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKeys = []string{"a", "b"}
	case *kmsg.InitProducerIDRequest:
		r.ProducerID, r.ProducerEpoch = -1, -1
	}
	return req
}

func TestF63_EveryAdvertisedVersionIsServed(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for _, a := range apiTable() {
		for version := a.served; version <= a.max; version++ {
			req := sample(a.key, version, topic)
			// Answers decode in full, and encode to the same bytes again.
			resp := c.receive(req, c.send(req))
			require.Equal(t, version, resp.GetVersion())
		}
	}
}

func TestF63_UnknownTaggedFieldsAreSkipped(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, nil)
	c := r.dial()
	for _, a := range apiTable() {
		for version := max(a.served, a.flexible); version <= a.max; version++ {
			req := sample(a.key, version, topic)
			body := req.AppendTo(nil)
			require.Equal(t, byte(0), body[len(body)-1], "the tagged fields of the request come last")
			body = append(body[:len(body)-1], 1, 99, 2, 'h', 'i')

			correlation := c.last.Add(1)
			header := []byte{0, byte(a.key), 0, byte(version)}
			header = binary.BigEndian.AppendUint32(header, uint32(correlation))
			header = append(header, 0, 1, 'c')               // client id: an int16 string, T4
			header = append(header, 2, 0, 0, 200, 1, 1, 'x') // two tagged fields of the header
			frame := binary.BigEndian.AppendUint32(nil, uint32(len(header)+len(body)))
			_, err := c.conn.Write(append(append(frame, header...), body...))
			require.NoError(t, err)
			c.receive(req, correlation)
		}
	}
}

func TestF63_WhatIsNotServedClosesTheConnectionWithOneEvent(t *testing.T) {
	tests := []struct {
		name         string
		key, version int16
		api          string
	}{
		{"produce 0", 0, 0, "Produce"},
		{"produce 2", 0, 2, "Produce"},
		{"produce 14", 0, 14, "Produce"},
		{"fetch 3", 1, 3, "Fetch"},
		{"fetch 19", 1, 19, "Fetch"},
		{"list offsets 12", 2, 12, "ListOffsets"},
		{"metadata 14", 3, 14, "Metadata"},
		{"find coordinator 7", 10, 7, "FindCoordinator"},
		{"create topics 8", 19, 8, "CreateTopics"},
		{"delete topics 7", 20, 7, "DeleteTopics"},
		{"init producer id 6", 22, 6, "InitProducerId"},
		{"offset commit 0", 8, 0, "OffsetCommit"},
		{"join group 10", 11, 10, "JoinGroup"},
		{"a key without handler", 17, 1, ""},
		{"a control key of old", 4, 0, ""},
		{"a key of nobody", 999, 0, ""},
		{"a negative key", -1, 0, ""},
		{"a negative version", 3, -1, "Metadata"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			c := r.dial()
			frame := binary.BigEndian.AppendUint16(nil, uint16(test.key))
			frame = binary.BigEndian.AppendUint16(frame, uint16(test.version))
			frame = append(frame, 0, 0, 0, 1, 0, 3, 'b', 'o', 'b', 1, 2, 3, 4)
			_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
			require.NoError(t, err)
			c.requireClosed()

			closed := r.events.closing(t, 1)
			require.Equal(t, ClosedRefused, closed.Reason)
			require.Equal(t, "bob", closed.ClientID)
			require.Len(t, r.events.refused, 1)
			got := r.events.refused[0]
			require.Error(t, got.Err)
			got.Err = nil
			require.Equal(t, RequestRefused{
				Connection: closed.Connection, API: test.api, Key: test.key, Version: test.version, ClientID: "bob",
				Bytes: int64(len(frame)),
			}, got)
			require.Empty(t, r.events.done)
		})
	}
}
