package records_test

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/coordinator"
	"github.com/tidemark-io/tidemark/coordinator/records"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func text(s string) *string { return &s }

var topicID = [16]byte{0: 0xA1, 7: 0x4B, 15: 0xFF}

var member = coordinator.MemberMetadata{
	ID: "m-1", InstanceID: "i-1", ClientID: "client", ClientHost: "/127.0.0.1", RebalanceMs: 60000, SessionMs: 45000,
	Subscription: []byte{0, 3, 1}, Assignment: []byte{9},
}

// goldens are the records whose bytes stand in testdata: what is written, and what is only read.
func goldens() map[string]coordinator.Record {
	dynamic := member
	dynamic.InstanceID = ""
	old := dynamic
	old.RebalanceMs = -1
	offset := func(o coordinator.Offset) coordinator.Record {
		return coordinator.OffsetRecord{Group: "g", Topic: "t", Partition: 7, Offset: &o}
	}
	group := func(since int64, members ...coordinator.MemberMetadata) coordinator.Record {
		return coordinator.GroupRecord{Group: "g", State: &coordinator.GroupMetadata{
			ProtocolType: "consumer", Generation: 5, Protocol: text("range"), Leader: text("m-1"), SinceMs: since, Members: members,
		}}
	}
	return map[string]coordinator.Record{
		"offset-v0":     offset(coordinator.Offset{Offset: 42, LeaderEpoch: -1, Metadata: "note", CommitMs: 1000, ExpireMs: -1}),
		"offset-v1":     offset(coordinator.Offset{Offset: 42, LeaderEpoch: -1, Metadata: "note", CommitMs: 1000, ExpireMs: 2000}),
		"offset-v2":     offset(coordinator.Offset{Offset: 42, LeaderEpoch: -1, Metadata: "note", CommitMs: 1000, ExpireMs: -1}),
		"offset-v3":     offset(coordinator.Offset{Offset: 42, LeaderEpoch: 3, Metadata: "note", CommitMs: 1000, ExpireMs: -1}),
		"offset-v4":     offset(coordinator.Offset{Offset: 42, LeaderEpoch: 3, Metadata: "note", CommitMs: 1000, ExpireMs: -1, TopicID: topicID}),
		"offset-v4-id0": offset(coordinator.Offset{Offset: 42, LeaderEpoch: 3, CommitMs: 1000, ExpireMs: -1}),
		"offset-gone":   coordinator.OffsetRecord{Group: "g", Topic: "t", Partition: 7},
		"group-v0":      group(-1, old),
		"group-v1":      group(-1, dynamic),
		"group-v2":      group(3000, dynamic),
		"group-v3":      group(3000, member, dynamic),
		"group-v4":      group(3000, member, dynamic),
		"group-empty": coordinator.GroupRecord{Group: "g", State: &coordinator.GroupMetadata{
			ProtocolType: "consumer", Generation: 6, SinceMs: 4000,
		}},
		"group-gone": coordinator.GroupRecord{Group: "g"},
	}
}

// golden reads the key and the value of a golden; the value of a tombstone is "null".
func golden(t *testing.T, name string) (key, value []byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	require.NoError(t, err)
	lines := strings.Fields(string(b))
	require.Len(t, lines, 2)
	key, err = hex.DecodeString(lines[0])
	require.NoError(t, err)
	if lines[1] == "null" {
		return key, nil
	}
	value, err = hex.DecodeString(lines[1])
	require.NoError(t, err)
	return key, value
}

// byKmsg is a record as another implementation writes it.
func byKmsg(r coordinator.Record, version int16) (key, value []byte) {
	switch r := r.(type) {
	case coordinator.OffsetRecord:
		k := kmsg.NewOffsetCommitKey()
		k.Version, k.Group, k.Topic, k.Partition = 1, r.Group, r.Topic, r.Partition
		if r.Offset == nil {
			return k.AppendTo(nil), nil
		}
		v := kmsg.NewOffsetCommitValue()
		v.Version, v.Offset, v.LeaderEpoch, v.Metadata = version, r.Offset.Offset, r.Offset.LeaderEpoch, r.Offset.Metadata
		v.CommitTimestamp, v.ExpireTimestamp, v.TopicID = r.Offset.CommitMs, r.Offset.ExpireMs, r.Offset.TopicID
		return k.AppendTo(nil), v.AppendTo(nil)
	case coordinator.GroupRecord:
		k := kmsg.NewGroupMetadataKey()
		k.Version, k.Group = 2, r.Group
		if r.State == nil {
			return k.AppendTo(nil), nil
		}
		v := kmsg.NewGroupMetadataValue()
		v.Version, v.ProtocolType, v.Generation = version, r.State.ProtocolType, r.State.Generation
		v.Protocol, v.Leader, v.CurrentStateTimestamp = r.State.Protocol, r.State.Leader, r.State.SinceMs
		for _, m := range r.State.Members {
			out := kmsg.NewGroupMetadataValueMember()
			out.MemberID, out.ClientID, out.ClientHost = m.ID, m.ClientID, m.ClientHost
			if m.InstanceID != "" {
				out.InstanceID = &m.InstanceID
			}
			out.RebalanceTimeoutMillis, out.SessionTimeoutMillis = m.RebalanceMs, m.SessionMs
			out.Subscription, out.Assignment = m.Subscription, m.Assignment
			v.Members = append(v.Members, out)
		}
		return k.AppendTo(nil), v.AppendTo(nil)
	}
	return nil, nil
}

func versionOf(name string) int16 {
	if i := strings.Index(name, "-v"); i >= 0 {
		return int16(name[i+2] - '0')
	}
	return 3
}

func TestEveryVersionOfKafkaIsReadAndAgreesWithKmsg(t *testing.T) {
	for name, want := range goldens() {
		t.Run(name, func(t *testing.T) {
			key, value := golden(t, name)
			theirKey, theirValue := byKmsg(want, versionOf(name))
			require.Equal(t, hex.EncodeToString(theirKey), hex.EncodeToString(key))
			require.Equal(t, hex.EncodeToString(theirValue), hex.EncodeToString(value))
			got, err := records.Decode(key, value)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestWhatIsWrittenIsTheGolden(t *testing.T) {
	for _, name := range []string{
		"offset-v1", "offset-v4", "offset-v4-id0", "offset-gone", "group-v3", "group-empty", "group-gone",
	} {
		key, value, err := records.Encode(goldens()[name])
		require.NoError(t, err)
		wantKey, wantValue := golden(t, name)
		require.Equal(t, wantKey, key, name)
		require.Equal(t, wantValue, value, name)
	}
}

func TestTheOldestKeyIsReadLikeTheOneThatIsWritten(t *testing.T) {
	key, value := golden(t, "offset-v4")
	key[1] = 0
	got, err := records.Decode(key, value)
	require.NoError(t, err)
	require.Equal(t, goldens()["offset-v4"], got)
}

func TestATextThatIsTooLongIsRefusedAndNotCut(t *testing.T) {
	long := strings.Repeat("x", 32768)
	longMember := member
	longMember.ClientID = long
	for _, r := range []coordinator.Record{
		coordinator.OffsetRecord{Group: long},
		coordinator.OffsetRecord{Topic: long},
		coordinator.OffsetRecord{Offset: &coordinator.Offset{Metadata: long}},
		coordinator.GroupRecord{Group: long},
		coordinator.GroupRecord{State: &coordinator.GroupMetadata{Leader: &long}},
		coordinator.GroupRecord{State: &coordinator.GroupMetadata{Members: []coordinator.MemberMetadata{longMember}}},
	} {
		_, _, err := records.Encode(r)
		require.ErrorIs(t, err, records.ErrTooLong)
	}
	key, _, err := records.Encode(coordinator.OffsetRecord{Group: long[1:]})
	require.NoError(t, err)
	got, err := records.Decode(key, nil)
	require.NoError(t, err)
	require.Equal(t, coordinator.OffsetRecord{Group: long[1:]}, got)
}

func TestAnUnknownKeyTypeIsToldFromDamage(t *testing.T) {
	for _, kind := range []byte{3, 8, 10, 16, 23, 99} {
		_, err := records.Decode([]byte{0, kind, 0, 1, 'g'}, nil)
		require.ErrorIs(t, err, records.ErrUnknownType)
	}
}

func TestAnUnknownValueVersionIsRefusedWithBothVersions(t *testing.T) {
	for _, name := range []string{"offset-v4", "group-v3"} {
		key, value := golden(t, name)
		for _, version := range [][2]byte{{0, 5}, {0xFF, 0xFF}} {
			copy(value, version[:])
			_, err := records.Decode(key, value)
			var unknown *records.VersionError
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, int16(4), unknown.Newest)
			require.NotEqual(t, int16(4), unknown.Found)
		}
	}
}

func TestACutOrPaddedRecordIsMalformed(t *testing.T) {
	for name := range goldens() {
		key, value := golden(t, name)
		for n := range key {
			_, err := records.Decode(key[:n], value)
			require.Error(t, err)
			require.False(t, errors.Is(err, records.ErrUnknownType), "%s: %d bytes of the key", name, n)
		}
		_, err := records.Decode(append(key[:len(key):len(key)], 0), value)
		require.ErrorIs(t, err, records.ErrMalformed)
		if value == nil {
			continue
		}
		for n := range value {
			_, err := records.Decode(key, value[:n:n])
			require.ErrorIs(t, err, records.ErrMalformed, "%s: %d bytes of the value", name, n)
		}
		_, err = records.Decode(key, append(value[:len(value):len(value)], 0))
		require.ErrorIs(t, err, records.ErrMalformed)
	}
}

// FuzzDecode holds that no bytes do harm, and that what is read is written and read again as the same.
func FuzzDecode(f *testing.F) {
	for name := range goldens() {
		key, value := byKmsg(goldens()[name], versionOf(name))
		f.Add(key, value, value == nil)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone bool) {
		if tombstone {
			value = nil
		}
		r, err := records.Decode(key, value)
		if err != nil {
			return
		}
		if o, ok := r.(coordinator.OffsetRecord); ok && o.Offset != nil {
			if o.Offset.ExpireMs >= 0 {
				o.Offset.LeaderEpoch = -1
			} else {
				o.Offset.ExpireMs = -1
			}
		}
		againKey, againValue, err := records.Encode(r)
		if errors.Is(err, records.ErrTooLong) {
			return // a flexible value can say more
		}
		require.NoError(t, err)
		again, err := records.Decode(againKey, againValue)
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
