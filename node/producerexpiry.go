package node

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/broker"
)

// followProducerExpiry applies the current expiry of producers. A value that cannot be parsed, which another version of
// the server may have accepted, is ignored in favour of the node's configuration.
func (n *Node) followProducerExpiry() {
	value, _ := n.catalog.nodes.Load().Value(broker.ProducerIDExpiration)
	ms, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
	if err != nil || ms < 1 {
		ms = 0
	}
	n.maintainer.SetProducerExpiry(time.Duration(ms) * time.Millisecond)
}
