package observe

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/partition"
)

func TestAppendsThatTheDiskRefusesAreErrorsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		events := Partitions(r.registry, r.log, NewTopics(r.registry, nothing))
		refuse := func(reason string) {
			events.Refused(partition.Refused{
				Topic: "orders", Partition: 3, Bytes: 70, Reason: reason, Err: errors.New("no space left on device"),
			})
		}
		for range 5 {
			refuse("storage")
		}
		refuse("corrupt batch")
		<-time.After(refusalsEvery)
		refuse("storage")

		var loud []string
		for line := range strings.Lines(r.lines.String()) {
			if strings.Contains(line, "level=ERROR") {
				loud = append(loud, strings.TrimSpace(line))
			}
		}
		const told = `level=ERROR msg="records are refused: the disk does not take them" topic=orders partition=3 error="no space left on device" others=`
		require.Equal(t, []string{told + "0", told + "4"}, loud)
	})
}

func TestAClockThatIsSetBackSilencesNothing(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &rare{every: time.Minute, now: func() time.Time { return now }}
	_, ok := r.allow()
	require.True(t, ok)
	now = now.Add(-time.Hour)
	_, ok = r.allow()
	require.True(t, ok)
}
