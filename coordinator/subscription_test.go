package coordinator

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSubscriptionsAreReadAtEveryVersionAndGarbageIsNot(t *testing.T) {
	body := "\x00\x00\x00\x02\x00\x01a\x00\x02bc\xFF\xFF\xFF\xFF"
	for _, version := range []string{"\x00\x00", "\x00\x01", "\x00\x03", "\x00\x63"} {
		topics, ok := subscribedTopics([]byte(version + body + "\x00\x00\x00\x00and what later versions have"))
		require.True(t, ok)
		require.Equal(t, []string{"a", "bc"}, topics)
	}
	for n := range 2 + len("\x00\x00\x00\x02\x00\x01a\x00\x02bc") {
		_, ok := subscribedTopics([]byte("\x00\x00" + body)[:n])
		require.False(t, ok, "%d bytes", n)
	}
	_, ok := subscribedTopics([]byte("\x00\x00\x7F\xFF\xFF\xFF\x00\x01a"))
	require.False(t, ok, "more topics than there are bytes")
}

func FuzzSubscription(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x00\x00\x01\x00\x01a\xFF\xFF\xFF\xFF\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, _ := subscribedTopics(b)
		size := 0
		for _, topic := range topics {
			size += 2 + len(topic)
		}
		require.LessOrEqual(t, size, len(b))
	})
}
