package observe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestU05_LagIsToldByGroupOrByPartitionOrNotAtAll(t *testing.T) {
	states := func() []GroupState {
		return []GroupState{{
			Name: "billing", State: "Stable", Members: 2, Rebalances: 5,
			Lags: []PartitionLag{{Topic: "orders", Partition: 0, Records: 3}, {Topic: "orders", Partition: 1, Records: 4}},
		}}
	}
	byGroup := map[string]float64{
		`tidemark_group_lag_records{group="billing"}`:            7,
		`tidemark_group_max_lag_records{group="billing"}`:        4,
		`tidemark_group_rebalances_total{group="billing"}`:       5,
		`tidemark_group_members{group="billing",state="Stable"}`: 2,
	}
	r, detail := newRig(), new(DetailVar)
	Groups(r.registry, detail, states)
	require.Equal(t, byGroup, r.samples(t))

	detail.Set(GroupsOff)
	require.Empty(t, r.samples(t))

	detail.Set(GroupsInFull)
	byGroup[`tidemark_group_partition_lag_records{group="billing",partition="0",topic="orders"}`] = 3
	byGroup[`tidemark_group_partition_lag_records{group="billing",partition="1",topic="orders"}`] = 4
	require.Equal(t, byGroup, r.samples(t))
}
