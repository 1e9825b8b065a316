package partition

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestU16_AnAppendWithoutRoomWritesNothingAndSaysWhy(t *testing.T) {
	d := newDisk(t)
	l := d.open(0)
	put(t, l, "kept")
	var asked []int
	var reasons []string
	full := errors.New("12 MiB are free")
	room := full
	l.room = func(bytes int) error {
		asked = append(asked, bytes)
		return room
	}
	l.events.Refused = func(e Refused) { reasons = append(reasons, e.Reason) }

	in := one("refused")
	_, err := l.Append(t.Context(), in, AppendOptions{Acks: -1})
	require.ErrorIs(t, err, ErrLowDisk)
	require.ErrorIs(t, err, ErrStorage, "which clients try again")
	require.ErrorIs(t, err, full)
	require.EqualError(t, err, "orders-0: append: too little space is left on the disk: 12 MiB are free")
	require.Equal(t, []int{len(in)}, asked)
	require.Equal(t, []string{"low disk"}, reasons)
	require.Equal(t, []string{"0:kept"}, values(t, l, ReadUncommitted))
	require.NoError(t, l.Failed(), "the log itself is well")

	room = nil
	put(t, l, "taken")
	require.Equal(t, []string{"0:kept", "1:taken"}, values(t, l, ReadUncommitted))
	require.NoError(t, d.stop())
}
