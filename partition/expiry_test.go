package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheExpiryOfProducersIsWhatIsSetLastOrWhatTheMaintainerWasMadeWith(t *testing.T) {
	m := NewMaintainer(MaintainerOptions{ProducerExpiry: time.Hour})
	defer m.Close()
	require.Equal(t, time.Hour, m.producerExpiry())
	m.SetProducerExpiry(5 * time.Second)
	require.Equal(t, 5*time.Second, m.producerExpiry())
	m.SetProducerExpiry(0)
	require.Equal(t, time.Hour, m.producerExpiry())
}
