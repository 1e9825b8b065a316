package meta

// A snapshot: the whole state as of one index. Little-endian; the CRC-32C covers everything before it.
//
//	off  0    4    5       13
//	    +----+----+-------+----------+------------------------------------+-----+
//	    |TMMS|ver | index | counters | sections, each:                    | CRC |
//	    |  4 |1: 1|   u64 |    6 x 8 | rows u64, then the rows            | u32 |
//	    +----+----+-------+----------+------------------------------------+-----+
//
//	counters  next stream id u64, next object id u64, next producer id u64, next destroyed sequence u64,
//	          kv version u64, clock ms i64
//
//	 1 streams              rows to come        8 transfers   rows to come
//	 2 nodes                i32 id order        9 tables      rows to come
//	 3 prepared objects     rows to come       10 buckets     rows to come
//	 4 stream-set objects   rows to come       11 topics      name order
//	 5 stream objects       rows to come       12 users       rows to come
//	 6 destroyed objects    rows to come       13 ACLs        rows to come
//	 7 kv                   key order          14 quotas      rows to come
//
//	node   id i32, epoch i64, incarnation 16 bytes, address str, slots u32, wal epoch i64, wal start u64
//	kv     key str, version u64, value blob
//	topic  id 16 bytes, name str, created ms i64, config version u64, list of (name str, value str) in name order,
//	       list of leader epoch i32, one per partition
//
// A section whose rows are to come has none yet. A snapshot with rows there was written by a newer version and is
// refused as such.

// section is one part of a snapshot after the counters.
type section struct {
	name   string
	count  func(s *State) int
	encode func(s *State, w *writer)
	// decode reads rows rows. It is nil for a section whose rows are to come.
	decode func(s *State, r *reader, rows int)
	// rowSize is the least that a row takes, which bounds the count.
	rowSize int
}

func sections() []section {
	return []section{
		comingSection("streams"),
		{"nodes", func(s *State) int { return s.nodes.len() }, encodeNodes, decodeNodes, 52},
		comingSection("prepared objects"),
		comingSection("stream-set objects"),
		comingSection("stream objects"),
		comingSection("destroyed objects"),
		{"kv", func(s *State) int { return s.kv.len() }, encodeKVs, decodeKVs, 17},
		comingSection("transfers"),
		comingSection("tables"),
		comingSection("buckets"),
		{"topics", func(s *State) int { return s.topics.len() }, encodeTopics, decodeTopics, 49},
		comingSection("users"),
		comingSection("ACLs"),
		comingSection("quotas"),
	}
}

func comingSection(name string) section {
	return section{name: name, count: func(*State) int { return 0 }, encode: func(*State, *writer) {}}
}

// EncodeSnapshot returns the state's bytes. Equal states give equal bytes.
func (s *State) EncodeSnapshot() []byte {
	w := writer{}
	w.raw([]byte(snapshotMagic))
	w.u8(snapshotVersion)
	w.u64(s.index)
	w.u64(s.nextStreamID)
	w.u64(s.nextObjectID)
	w.u64(s.nextProducerID)
	w.u64(s.nextDestroyedSeq)
	w.u64(s.kvVersion)
	w.i64(s.clockMs)
	for _, sec := range sections() {
		w.u64(uint64(sec.count(s)))
		sec.encode(s, &w)
	}
	return sealed(w.b)
}

// DecodeSnapshot returns the state that a snapshot holds. It keeps no reference to b. The error is a [*VersionError] for
// a snapshot that a newer version wrote and a [*FormatError] for anything else that is not a snapshot.
func DecodeSnapshot(b []byte) (*State, error) {
	r, err := opened(b, snapshotMagic, "snapshot version", snapshotVersion)
	if err != nil {
		return nil, err
	}
	s := &State{
		index:            r.u64(),
		nextStreamID:     r.u64(),
		nextObjectID:     r.u64(),
		nextProducerID:   r.u64(),
		nextDestroyedSeq: r.u64(),
		kvVersion:        r.u64(),
		clockMs:          r.i64(),
	}
	for _, sec := range sections() {
		rows := r.u64()
		if r.err != nil {
			break
		}
		if sec.decode == nil {
			if rows > 0 {
				return nil, &VersionError{What: "number of " + sec.name + " in the snapshot", Got: rows}
			}
			continue
		}
		if rows > uint64(r.remaining()/sec.rowSize) {
			r.fail("%d %s do not fit in the %d bytes left", rows, sec.name, r.remaining())
			break
		}
		sec.decode(s, r, int(rows))
	}
	if err := r.finish(); err != nil {
		return nil, err
	}
	return s, nil
}

func encodeNodes(s *State, w *writer) {
	for _, n := range s.nodes.all() {
		w.i32(n.ID)
		w.i64(n.Epoch)
		w.raw(n.Incarnation[:])
		w.str(n.Address)
		w.u32(n.Slots)
		w.i64(n.WALEpoch)
		w.u64(n.WALStart)
	}
}

func decodeNodes(s *State, r *reader, rows int) {
	last := int32(-1)
	for range rows {
		n := Node{ID: r.i32(), Epoch: r.i64(), Incarnation: r.id(), Address: r.str(), Slots: r.u32(), WALEpoch: r.i64(),
			WALStart: r.u64()}
		if n.ID <= last {
			r.fail("node %d is out of order", n.ID)
		}
		if r.err != nil {
			return
		}
		s.nodes = s.nodes.set(n.ID, n)
		last = n.ID
	}
}

func encodeKVs(s *State, w *writer) {
	for key, v := range s.kv.all() {
		w.str(key)
		w.u64(v.Version)
		w.blob(v.Value)
	}
}

func decodeKVs(s *State, r *reader, rows int) {
	last := ""
	for range rows {
		key, v := r.str(), KV{Version: r.u64()}
		v.Value = append([]byte{}, r.blob()...)
		if key <= last {
			r.fail("key %q is out of order", key)
		}
		if v.Version == 0 || v.Version > s.kvVersion {
			r.fail("key %q has version %d of %d", key, v.Version, s.kvVersion)
		}
		if r.err != nil {
			return
		}
		s.kv = s.kv.set(key, v)
		last = key
	}
}

func encodeTopics(s *State, w *writer) {
	for _, t := range s.topics.all() {
		w.raw(t.ID[:])
		w.str(t.Name)
		w.i64(t.CreatedMs)
		w.u64(t.ConfigVersion)
		encodeConfigs(w, t.configs)
		w.count(len(t.leaderEpochs))
		for _, epoch := range t.leaderEpochs {
			w.i32(epoch)
		}
	}
}

func decodeTopics(s *State, r *reader, rows int) {
	t := transition{next: *s}
	last := ""
	for range rows {
		topic := decodeTopic(r)
		if r.err != nil {
			return
		}
		if topic.Name <= last {
			r.fail("topic %q is out of order", topic.Name)
			return
		}
		if other, ok := t.next.topicNames.get(collisionKey(topic.Name)); ok {
			r.fail("topic %q collides with %q", topic.Name, other)
			return
		}
		if other, ok := t.next.topicIDs.get(string(topic.ID[:])); ok {
			r.fail("topic %q has the id of %q", topic.Name, other.Name)
			return
		}
		t.addTopic(topic)
		last = topic.Name
	}
	*s = t.next
}

func decodeTopic(r *reader) *Topic {
	topic := &Topic{ID: r.id(), Name: r.str(), CreatedMs: r.i64(), ConfigVersion: r.u64()}
	topic.configs = sortedConfigs(decodeConfigs(r))
	topic.leaderEpochs = make([]int32, r.count(4))
	for p := range topic.leaderEpochs {
		topic.leaderEpochs[p] = r.i32()
	}
	return topic
}
