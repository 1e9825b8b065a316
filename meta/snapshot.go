package meta

// A snapshot: the whole state as of one index. Little-endian; the CRC-32C covers everything before it.
//
//	off  0    4    5       13
//	    +----+----+-------+----------+-------------------------+-------+--------------+-----+
//	    |TMMS|ver | index | counters | sections, each:         | level | section      | of    | section | CRC |
//	    |  4 |1: 1|   u64 |    6 x 8 | rows u64, then the rows | u32   | 15           | tables| 16      | u32 |
//	    +----+----+-------+----------+-------------------------+-------+--------------+-------+---------+-----+
//	                                                           |-- from version 2 ----|-- version 3 ----|
//
//	counters  next stream id u64, next object id u64, next producer id u64, next destroyed sequence u64,
//	          kv version u64, clock ms i64
//	of tables last table u64, coordinator epoch i64, coordinator node i32
//
//	 1 streams              id order            9 tables      id order
//	 2 nodes                id order           10 buckets     table, partition, bucket order
//	 3 prepared objects     id order           11 topics      name order
//	 4 stream-set objects   id order           12 users       rows to come
//	 5 stream objects       stream, end order  13 ACLs        rows to come
//	 6 destroyed objects    mark order         14 quotas      rows to come
//	 7 kv                   key order          15 levels      node order
//	 8 transfers            stream order       16 dropped     stream order
//
//	stream     id i64, epoch i64, start i64, end i64, opened bool, node i32, list of (epoch i64, start i64)
//	node       id i32, epoch i64, incarnation 16 bytes, address str, slots u32, wal epoch i64, wal start u64
//	prepared   object i64, deadline ms i64
//	set        object i64, node i32, size i64, attributes u32, committed ms i64, data ms i64, list of range
//	object     stream object, data ms i64              (ranges and stream objects: see wire_objects.go)
//	transfer   stream i64, from node i32, to node i32
//	destroyed  mark u64, object i64, operation u8, marked ms i64
//	kv         key str, version u64, value blob
//	topic      id 16 bytes, name str, created ms i64, config version u64, list of (name str, value str) in name order,
//	           list of leader epoch i32, one per partition
//	level      node i32, incarnation 16 bytes, level u32, build str
//	table      id u64, name str, kind u8, partitioned bool, buckets i32, created ms i64, options blob, list of schema blob,
//	           next partition i64, list of (partition i64, key str)
//	bucket     bucket, stream i64, leader epoch i64, node i32              (what a bucket is: see snapshot_tables.go)
//	dropped    stream i64, bucket, name str, dropped ms i64
//
// A section whose rows are to come has none yet. A snapshot with rows there was written by a newer version and is
// refused as such. Version 1 is written as long as nobody has announced a level, so that an older build can continue
// from it, and version 2 as long as there were no tables.

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
		{"streams", func(s *State) int { return s.streams.len() }, encodeStreams, decodeStreams, 41},
		{"nodes", func(s *State) int { return s.nodes.len() }, encodeNodes, decodeNodes, 52},
		{"prepared objects", func(s *State) int { return s.prepared.len() }, encodePrepared, decodePrepared, 16},
		{"stream-set objects", func(s *State) int { return s.sets.len() }, encodeSets, decodeSets, 44},
		{"stream objects", func(s *State) int { return s.objects.len() }, encodeStreamObjects, decodeStreamObjects, 60},
		{"destroyed objects", func(s *State) int { return s.destroyed.len() }, encodeDestroyed, decodeDestroyed, 25},
		{"kv", func(s *State) int { return s.kv.len() }, encodeKVs, decodeKVs, 17},
		{"transfers", func(s *State) int { return s.transfers.len() }, encodeTransfers, decodeTransfers, 16},
		{"tables", (*State).TableCount, encodeTables, decodeTables, 46},
		{"buckets", (*State).bucketCount, encodeBuckets, decodeBuckets, 40},
		{"topics", func(s *State) int { return s.topics.len() }, encodeTopics, decodeTopics, 49},
		comingSection("users"),
		comingSection("ACLs"),
		comingSection("quotas"),
	}
}

func comingSection(name string) section {
	return section{name: name, count: func(*State) int { return 0 }, encode: func(*State, *writer) {}}
}

func levelSection() section {
	return section{"levels", func(s *State) int { return s.levels.len() }, encodeLevels, decodeLevels, 28}
}

// EncodeSnapshot returns the state's bytes. Equal states give equal bytes.
func (s *State) EncodeSnapshot() []byte {
	version := s.snapshotVersion()
	w := writer{b: make([]byte, 0, 128+s.streams.len()*64+s.objects.len()*(streamObjectSize+8)+s.prepared.len()*16)}
	w.raw([]byte(snapshotMagic))
	w.u8(version)
	w.u64(s.index)
	w.u64(s.nextStreamID)
	w.u64(s.nextObjectID)
	w.u64(s.nextProducerID)
	w.u64(s.nextDestroyedSeq)
	w.u64(s.kvVersion)
	w.i64(s.clockMs)
	for _, sec := range sections() {
		sec.write(s, &w)
	}
	if version > 1 {
		w.u32(uint32(s.level))
		levelSection().write(s, &w)
	}
	if version > 2 {
		s.writeTableCounters(&w)
	}
	return sealed(w.b)
}

// snapshotVersion is the lowest that can hold the state.
func (s *State) snapshotVersion() uint8 {
	if s.hasTables() {
		return 3
	}
	if s.level > LevelTopics || s.levels.len() > 0 {
		return 2
	}
	return 1
}

func (sec section) write(s *State, w *writer) {
	w.u64(uint64(sec.count(s)))
	sec.encode(s, w)
}

// DecodeSnapshot returns the state that a snapshot holds. It keeps no reference to b. The error is a [*VersionError] for
// a snapshot that a newer version wrote and a [*FormatError] for anything else that is not a snapshot.
func DecodeSnapshot(b []byte) (*State, error) {
	r, version, err := opened(b, snapshotMagic, "snapshot version", snapshotVersion)
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
		sec.read(s, r)
	}
	if version > 1 {
		s.level = r.level()
		levelSection().read(s, r)
	}
	if version > 2 {
		s.readTableCounters(r)
	}
	if r.err == nil && version != s.snapshotVersion() {
		r.fail("version %d was not needed", version)
	}
	s.linkParts(r)
	if err := r.finish(); err != nil {
		return nil, err
	}
	return s, nil
}

// read decodes a section's rows.
func (sec section) read(s *State, r *reader) {
	rows := r.u64()
	switch {
	case r.err != nil:
	case sec.decode == nil && rows > 0:
		r.err = &VersionError{What: "number of " + sec.name + " in the snapshot", Got: rows}
	case sec.decode == nil:
	case rows > uint64(r.remaining()/sec.rowSize):
		r.fail("%d %s do not fit in the %d bytes left", rows, sec.name, r.remaining())
	default:
		sec.decode(s, r, int(rows))
	}
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
