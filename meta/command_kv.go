package meta

import "bytes"

// Limits of the key-value pairs. They are part of how commands apply, so they are the same on every node forever.
const (
	// MaxKeyBytes is the longest key, in bytes of UTF-8. The shortest is one byte.
	MaxKeyBytes = 512
	// MaxValueBytes is the largest value.
	MaxValueBytes = 512 << 10
)

// PutKv sets a key, whatever it was. Result: the new Value and Version; rejected as [TableNotExist] from [LevelTables] on when
// the key is that of a snapshot of writers, or of a piece of one, and its bucket does not exist: a late write, after
// the bucket was dropped, would stay forever. [PutKvIfAbsent] and [CasKv] are rejected likewise.
type PutKv struct {
	Key   string
	Value []byte
}

// PutKvIfAbsent sets a key that is absent and never overwrites. Result: the current Value and Version, the existing
// ones or the new ones.
type PutKvIfAbsent struct {
	Key   string
	Value []byte
}

// DeleteKv removes a key. Result: the Value and Version that were removed, Version 0 if there was none.
type DeleteKv struct{ Key string }

// DeleteKvIfMatches removes a key if its value is byte-equal to Value. Result: what was removed, Version 0 if the key was
// absent; rejected as [Redundant] if the value differs.
type DeleteKvIfMatches struct {
	Key   string
	Value []byte
}

// CasKv sets a key if it is at the expected version, where 0 means that it must be absent. Result: Swapped, and the
// current Value and Version. A different version is not a rejection.
type CasKv struct {
	Key      string
	Expected uint64
	Value    []byte
}

// Type returns 12.
func (PutKv) Type() uint8 { return numPutKv }

// Type returns 13.
func (PutKvIfAbsent) Type() uint8 { return numPutKvIfAbsent }

// Type returns 14.
func (DeleteKv) Type() uint8 { return numDeleteKv }

// Type returns 19.
func (DeleteKvIfMatches) Type() uint8 { return numDeleteKvIfMatches }

// Type returns 21.
func (CasKv) Type() uint8 { return numCasKv }

func (c PutKv) encode(w *writer)             { w.str(c.Key); w.blob(c.Value) }
func (c PutKvIfAbsent) encode(w *writer)     { w.str(c.Key); w.blob(c.Value) }
func (c DeleteKv) encode(w *writer)          { w.str(c.Key) }
func (c DeleteKvIfMatches) encode(w *writer) { w.str(c.Key); w.blob(c.Value) }
func (c CasKv) encode(w *writer)             { w.str(c.Key); w.u64(c.Expected); w.blob(c.Value) }

func (c PutKv) apply(t *transition) Result {
	if r := t.checkPut(c.Key, c.Value); r.Code != OK {
		return r
	}
	return t.putKv(c.Key, c.Value)
}

func (c PutKvIfAbsent) apply(t *transition) Result {
	if r := t.checkPut(c.Key, c.Value); r.Code != OK {
		return r
	}
	if present, ok := t.next.kv.get(c.Key); ok {
		return present.result()
	}
	return t.putKv(c.Key, c.Value)
}

func (c DeleteKv) apply(t *transition) Result {
	if r := checkPair(c.Key, nil); r.Code != OK {
		return r
	}
	present, ok := t.next.kv.get(c.Key)
	if !ok {
		return Result{}
	}
	t.next.kv = t.next.kv.remove(c.Key)
	t.keyRemoved(c.Key)
	return present.result()
}

func (c DeleteKvIfMatches) apply(t *transition) Result {
	if r := checkPair(c.Key, c.Value); r.Code != OK {
		return r
	}
	present, ok := t.next.kv.get(c.Key)
	if !ok {
		return Result{}
	}
	if !bytes.Equal(present.Value, c.Value) {
		return reject(Redundant, "key %q has another value", c.Key)
	}
	t.next.kv = t.next.kv.remove(c.Key)
	t.keyRemoved(c.Key)
	return present.result()
}

func (c CasKv) apply(t *transition) Result {
	if r := t.checkPut(c.Key, c.Value); r.Code != OK {
		return r
	}
	present, _ := t.next.kv.get(c.Key)
	if present.Version != c.Expected {
		return present.result()
	}
	r := t.putKv(c.Key, c.Value)
	r.Swapped = true
	return r
}

func checkPair(key string, value []byte) Result {
	if len(key) < 1 || len(key) > MaxKeyBytes {
		return reject(InvalidArgument, "a key has 1 to %d bytes, not %d", MaxKeyBytes, len(key))
	}
	if len(value) > MaxValueBytes {
		return reject(InvalidArgument, "a value has at most %d bytes, not %d", MaxValueBytes, len(value))
	}
	return Result{}
}

// checkPut checks a key and value to be put, and that a snapshot of writers has its bucket.
func (t *transition) checkPut(key string, value []byte) Result {
	if r := checkPair(key, value); r.Code != OK || t.next.level < LevelTables {
		return r
	}
	root, is := bucketOfKey(key)
	if !is {
		return Result{}
	}
	if id, is := parseWriterSnapshotKey(root); is {
		if _, lives := t.next.Bucket(id); lives {
			return Result{}
		}
	}
	return reject(TableNotExist, "the key %q belongs to no bucket", key)
}

// putKv gives the key a fresh version from the one counter.
func (t *transition) putKv(key string, value []byte) Result {
	t.next.kvVersion++
	v := KV{Value: bytes.Clone(value), Version: t.next.kvVersion} // not the entry's bytes: they would stay with it
	t.next.kv = t.next.kv.set(key, v)
	return v.result()
}

func (v KV) result() Result { return Result{Value: v.Value, Version: v.Version} }
