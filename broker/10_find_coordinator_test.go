package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFindCoordinatorFindsNone(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	for version := int16(0); version <= 6; version++ {
		for kind := int8(0); kind <= 3; kind++ {
			if version == 0 && kind > 0 {
				continue // version 0 has no types
			}
			want := codeCoordinatorNotAvailable
			if kind == 3 || kind == 2 && version < 6 {
				want = codeInvalidRequest
			}
			req := at(version, kmsg.NewPtrFindCoordinatorRequest())
			req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = kind, "a", []string{"a", "b"}
			resp := do[*kmsg.FindCoordinatorResponse](c, req)
			if version < 4 {
				require.Equal(t, want, resp.ErrorCode)
				require.Equal(t, int32(-1), resp.NodeID)
				require.Equal(t, int32(-1), resp.Port)
				continue
			}
			require.Len(t, resp.Coordinators, 2)
			for i, key := range req.CoordinatorKeys {
				got := resp.Coordinators[i]
				require.NotEmpty(t, *got.ErrorMessage)
				require.Equal(t, kmsg.FindCoordinatorResponseCoordinator{
					Key: key, NodeID: -1, Port: -1, ErrorCode: want, ErrorMessage: got.ErrorMessage,
				}, got)
			}
		}
	}
}
