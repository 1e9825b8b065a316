package etcd

import clientv3 "go.etcd.io/etcd/client/v3"

// Notify returns the channel that receives when the head may have moved.
func (b *Backend) Notify() <-chan struct{} { return b.notify }

// wake notifies waiters that there may be new entries.
func (b *Backend) wake() {
	select {
	case b.notify <- struct{}{}:
	default:
	}
}

// watch wakes waiters when the head moves after a revision, until Close. If etcd loses the position, or its history no
// longer reaches back to it, the watch begins again from the present and wakes them for what it may have missed.
func (b *Backend) watch(revision int64) {
	defer close(b.watched)
	for b.life.Err() == nil {
		options := []clientv3.OpOption{clientv3.WithKeysOnly()}
		if revision > 0 {
			options = append(options, clientv3.WithRev(revision+1))
		}
		for event := range b.client.Watch(clientv3.WithRequireLeader(b.life), b.keys.head(), options...) {
			if event.Err() != nil {
				break
			}
			b.wake()
		}
		revision = 0
		b.wake()
		_ = pause(b.life, retryAfter)
	}
}
