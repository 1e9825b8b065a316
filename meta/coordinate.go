package meta

import (
	"context"
	"errors"
)

// coordinate makes the holder of the lease the coordinator (MP-9). It registers after the last coordinator that it has applied;
// when another process was faster, it has applied that by then, and looks again. It does nothing for who holds no lease, and
// for who is the coordinator already.
//
// Who was paused may hold a key that has expired, without knowing. So the backend is asked whose it is before each registration:
// otherwise such a process would depose its successor. That it may still happen, when the key expires in between, harms nobody:
// the successor registers anew at its next tick, and the other one's key is gone by then.
//
// Below [LevelTables] nobody registers, and the key alone decides. A cluster with streams rises to that level here, when every
// live node understands it; one without streams stays where it is, so that an older version can read its metadata.
func (m *Member) coordinate(ctx context.Context) error {
	l := m.log.lease
	for l.held() {
		view := m.log.View()
		switch {
		case view.level < LevelStreams:
			return nil
		case view.level < LevelTables:
			if ready, err := m.allUnderstand(ctx, LevelTables); !ready {
				return err
			}
			if err := m.RaiseLevel(ctx, LevelTables); err != nil {
				return err
			}
			continue
		case view.coordinator != Coordinator{} && view.isLedBy(m.o.Node, l.term.Load()):
			return nil
		}
		if ours, err := l.isOurs(ctx); !ours {
			return err
		}
		// The term is noted before the outcome is known: should the reply be lost, it may come true at any time. No other
		// process can make it true: only one of this node could, and this one's epoch of the node keeps those out.
		expected := view.coordinator.Epoch
		l.term.Store(expected + 1)
		_, err := m.log.Do(ctx, RegisterCoordinator{Node: m.o.Node, NodeEpoch: m.Epoch(), ExpectedEpoch: expected})
		if err != nil && !errors.Is(err, CoordinatorFenced) {
			return err
		}
	}
	return nil
}

// allUnderstand reports whether every node that lives has announced a level, or is this one, which is going to. It keeps an
// older node from costing two entries of the log at every tick.
func (m *Member) allUnderstand(ctx context.Context, level Level) (bool, error) {
	live, err := m.log.Live(ctx)
	if err != nil {
		return false, err
	}
	for node := range live {
		if node != m.o.Node && m.log.View().nodeLevel(node) < level {
			return false, nil
		}
	}
	return true, nil
}
