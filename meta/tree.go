package meta

import (
	"cmp"
	"iter"
)

// tree is an ordered map that never changes: set and remove return a new one that shares all but the O(log n) nodes on
// the path to the key. It is an AVL tree; the zero tree is empty.
type tree[K cmp.Ordered, V any] struct {
	root *treeNode[K, V]
	n    int
}

type treeNode[K cmp.Ordered, V any] struct {
	left, right *treeNode[K, V]
	height      int
	key         K
	value       V
}

func (t tree[K, V]) len() int { return t.n }

func (t tree[K, V]) get(key K) (value V, ok bool) {
	for n := t.root; n != nil; {
		switch {
		case key < n.key:
			n = n.left
		case key > n.key:
			n = n.right
		default:
			return n.value, true
		}
	}
	return value, false
}

func (t tree[K, V]) set(key K, value V) tree[K, V] {
	root, added := t.root.set(key, value)
	if added {
		t.n++
	}
	return tree[K, V]{root: root, n: t.n}
}

func (t tree[K, V]) remove(key K) tree[K, V] {
	if _, ok := t.get(key); !ok {
		return t
	}
	return tree[K, V]{root: t.root.remove(key), n: t.n - 1}
}

// from yields the pairs with keys at or after start, in key order.
func (t tree[K, V]) from(start K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.from(start, yield) }
}

// all yields every pair in key order.
func (t tree[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.walk(yield) }
}

func (n *treeNode[K, V]) set(key K, value V) (*treeNode[K, V], bool) {
	if n == nil {
		return &treeNode[K, V]{height: 1, key: key, value: value}, true
	}
	c := *n
	var added bool
	switch {
	case key < n.key:
		c.left, added = n.left.set(key, value)
	case key > n.key:
		c.right, added = n.right.set(key, value)
	default:
		c.value = value
		return &c, false
	}
	return c.balanced(), added
}

// remove returns the subtree without key, which is in it.
func (n *treeNode[K, V]) remove(key K) *treeNode[K, V] {
	c := *n
	switch {
	case key < n.key:
		c.left = n.left.remove(key)
	case key > n.key:
		c.right = n.right.remove(key)
	case n.left == nil:
		return n.right
	case n.right == nil:
		return n.left
	default:
		next := n.right.first()
		c.key, c.value = next.key, next.value
		c.right = n.right.remove(next.key)
	}
	return c.balanced()
}

func (n *treeNode[K, V]) first() *treeNode[K, V] {
	for n.left != nil {
		n = n.left
	}
	return n
}

func (n *treeNode[K, V]) heightOf() int {
	if n == nil {
		return 0
	}
	return n.height
}

func (n *treeNode[K, V]) measure() { n.height = 1 + max(n.left.heightOf(), n.right.heightOf()) }

// balanced restores the AVL rule at n, a node that nobody else has seen yet. Children that it rotates are copied.
func (n *treeNode[K, V]) balanced() *treeNode[K, V] {
	n.measure()
	switch n.left.heightOf() - n.right.heightOf() {
	case 2:
		left := *n.left
		if left.left.heightOf() < left.right.heightOf() {
			left = *left.rotateLeft()
		}
		n.left = &left
		return n.rotateRight()
	case -2:
		right := *n.right
		if right.right.heightOf() < right.left.heightOf() {
			right = *right.rotateRight()
		}
		n.right = &right
		return n.rotateLeft()
	}
	return n
}

func (n *treeNode[K, V]) rotateRight() *treeNode[K, V] {
	up, down := *n.left, *n
	down.left = up.right
	down.measure()
	up.right = &down
	up.measure()
	return &up
}

func (n *treeNode[K, V]) rotateLeft() *treeNode[K, V] {
	up, down := *n.right, *n
	down.right = up.left
	down.measure()
	up.left = &down
	up.measure()
	return &up
}

func (n *treeNode[K, V]) walk(yield func(K, V) bool) bool {
	return n == nil || n.left.walk(yield) && yield(n.key, n.value) && n.right.walk(yield)
}

func (n *treeNode[K, V]) from(start K, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if n.key < start {
		return n.right.from(start, yield)
	}
	return n.left.from(start, yield) && yield(n.key, n.value) && n.right.walk(yield)
}

// treeBuilder makes a tree of pairs that come in the order of their keys, in time for each pair that does not grow with
// their number.
type treeBuilder[K cmp.Ordered, V any] struct{ pairs []treeNode[K, V] }

// add takes the next pair. It reports whether its key is above the last one.
func (b *treeBuilder[K, V]) add(key K, value V) bool {
	if n := len(b.pairs); n > 0 && key <= b.pairs[n-1].key {
		return false
	}
	b.pairs = append(b.pairs, treeNode[K, V]{key: key, value: value})
	return true
}

// tree returns all pairs. The builder must not be used after.
func (b *treeBuilder[K, V]) tree() tree[K, V] {
	return tree[K, V]{root: balancedOver(b.pairs), n: len(b.pairs)}
}

// balancedOver makes the middle pair the root, and its halves the subtrees.
func balancedOver[K cmp.Ordered, V any](pairs []treeNode[K, V]) *treeNode[K, V] {
	if len(pairs) == 0 {
		return nil
	}
	middle := len(pairs) / 2
	root := pairs[middle] // a copy: the slice would keep all of them alive
	root.left, root.right = balancedOver(pairs[:middle]), balancedOver(pairs[middle+1:])
	root.measure()
	return &root
}
