package broker

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestInitProducerIDGivesANewIDEachTime(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	last := int64(1000)
	for version := int16(0); version <= 5; version++ {
		for _, had := range [][2]int64{{-1, -1}, {5, 3}} {
			req := at(version, kmsg.NewPtrInitProducerIDRequest())
			req.ProducerID, req.ProducerEpoch = had[0], int16(had[1])
			resp := do[*kmsg.InitProducerIDResponse](c, req)
			last++
			want := kmsg.NewPtrInitProducerIDResponse()
			want.Version, want.ProducerID, want.ProducerEpoch = version, last, 0
			require.Equal(t, want, resp)
		}
	}
}

func TestInitProducerIDErrors(t *testing.T) {
	tests := []struct {
		name   string
		change func(*kmsg.InitProducerIDRequest)
		since  int16
		want   int16
	}{
		{"empty transactional id", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = kmsg.StringPtr("") }, 0, codeInvalidRequest},
		{"id without epoch", func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 5 }, 3, codeInvalidRequest},
		{"epoch without id", func(r *kmsg.InitProducerIDRequest) { r.ProducerEpoch = 5 }, 3, codeInvalidRequest},
		{"transactional", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = kmsg.StringPtr("tx") }, 0, codeCoordinatorNotAvailable},
	}
	r := newRig(t)
	c := r.dial()
	for _, test := range tests {
		for version := test.since; version <= 5; version++ {
			req := at(version, kmsg.NewPtrInitProducerIDRequest())
			req.ProducerID, req.ProducerEpoch = -1, -1
			test.change(req)
			resp := do[*kmsg.InitProducerIDResponse](c, req)
			require.Equal(t, test.want, resp.ErrorCode, test.name)
			require.Equal(t, int64(-1), resp.ProducerID)
			require.Equal(t, int16(-1), resp.ProducerEpoch)
		}
	}
	r.backend.failing = errors.New("no ids")
	resp := do[*kmsg.InitProducerIDResponse](c, at(5, kmsg.NewPtrInitProducerIDRequest()))
	require.Equal(t, codeCoordinatorNotAvailable, resp.ErrorCode)
	r.backend.failing = nil
}
