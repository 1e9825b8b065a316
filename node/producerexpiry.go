package node

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/broker"
)

// followProducerExpiry has producers be remembered for as long as is set by now. What cannot be read, which another version
// of the server may have set, is as if nothing were: the node's configuration says how long.
func (n *Node) followProducerExpiry() {
	value, _ := n.catalog.nodes.Load().Value(broker.ProducerIDExpiration)
	ms, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if err != nil || ms < 1 {
		ms = 0
	}
	n.maintainer.SetProducerExpiry(time.Duration(ms) * time.Millisecond)
}
