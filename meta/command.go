package meta

// Command is one change to the state. The types of this package are the only ones:
//
//   - topics: [CreateTopic], [AdoptTopic], [DeleteTopic], [CreatePartitions], [SetTopicConfigs], [RaiseLeaderEpochs]
//   - nodes: [RegisterNode], [AnnounceLevel], [RaiseLevel], [OpenWAL], [CloseWAL]
//   - streams and objects: [CreateStreams], [OpenStream], [TrimStream], [CloseStream], [DeleteStream], [PrepareObjects],
//     [CommitObjects], [CompactStream], [ExpirePrepared], [CleanDestroyed], [TransferStream], [CompleteTransfer],
//     [PlaceStream]
//   - tables: [CreateTable], [DropTable], [AddSchema], [CreatePartition], [DropPartition], [AddBuckets], [LeadBucket],
//     [RegisterCoordinator]
//   - ids and pairs: [AllocateProducerIDs], [RaiseProducerIDs], [PutKv], [PutKvIfAbsent], [DeleteKv], [DeleteKvIfMatches],
//     [CasKv]
//
// Their fields must not change while they are proposed.
type Command interface {
	// Type is the number of the command: its first byte in an entry.
	Type() uint8
	// encode writes the fields.
	encode(w *writer)
	// apply changes the state, or rejects and leaves it as it was.
	apply(t *transition) Result
}

// The numbers of the commands that this build knows. They are on disk; see the package documentation for the ranges.
const (
	numOpenStream          = 2
	numTrimStream          = 3
	numCloseStream         = 4
	numDeleteStream        = 5
	numPrepareObjects      = 6
	numCommitObjects       = 7
	numCompactStream       = 8
	numExpirePrepared      = 9
	numRegisterNode        = 10
	numCleanDestroyed      = 11
	numPutKv               = 12
	numPutKvIfAbsent       = 13
	numDeleteKv            = 14
	numTransferStream      = 15
	numCompleteTransfer    = 16
	numCreateStreams       = 17
	numPlaceStream         = 18
	numDeleteKvIfMatches   = 19
	numAllocateProducerIDs = 20
	numCasKv               = 21
	numOpenWAL             = 22
	numCloseWAL            = 23
	numCreateTable         = 30
	numDropTable           = 31
	numAddSchema           = 32
	numCreatePartition     = 33
	numDropPartition       = 34
	numAddBuckets          = 35
	numLeadBucket          = 38
	numRegisterCoordinator = 43
	numCreateTopic         = 50
	numDeleteTopic         = 51
	numCreatePartitions    = 52
	numAdoptTopic          = 53
	numSetTopicConfigs     = 60
	numRaiseLeaderEpochs   = 70
	numAnnounceLevel       = 110
	numRaiseLevel          = 111
	numRaiseProducerIDs    = 120
)

// encodeCommand returns a command's bytes: its number, then its fields.
func encodeCommand(c Command) ([]byte, error) {
	w := writer{}
	w.u8(c.Type())
	c.encode(&w)
	return w.b, w.err
}

// decodeCommand reads one command. A number that is not known here is a [*VersionError]. Blobs alias the input.
func decodeCommand(r *reader) Command {
	switch number := r.u8(); number {
	case numRegisterNode:
		return decodeRegisterNode(r)
	case numPutKv:
		return PutKv{Key: r.str(), Value: r.blob()}
	case numPutKvIfAbsent:
		return PutKvIfAbsent{Key: r.str(), Value: r.blob()}
	case numDeleteKv:
		return DeleteKv{Key: r.str()}
	case numDeleteKvIfMatches:
		return DeleteKvIfMatches{Key: r.str(), Value: r.blob()}
	case numCasKv:
		return CasKv{Key: r.str(), Expected: r.u64(), Value: r.blob()}
	case numAllocateProducerIDs:
		return AllocateProducerIDs{Node: r.i32(), NodeEpoch: r.i64(), Count: r.u32()}
	case numCreateTopic:
		return decodeCreateTopic(r)
	case numDeleteTopic:
		return DeleteTopic{ID: r.id()}
	case numCreatePartitions:
		return CreatePartitions{ID: r.id(), Expected: r.i32(), Total: r.i32()}
	case numSetTopicConfigs:
		return SetTopicConfigs{ID: r.id(), ExpectedVersion: r.u64(), Configs: decodeConfigs(r)}
	case numAdoptTopic:
		return decodeAdoptTopic(r)
	case numRaiseLeaderEpochs:
		return decodeRaiseLeaderEpochs(r)
	case numAnnounceLevel:
		return decodeAnnounceLevel(r)
	case numRaiseLevel:
		return decodeRaiseLevel(r)
	case numRaiseProducerIDs:
		return RaiseProducerIDs{Next: r.u64()}
	default:
		return decodeStreamCommand(r, number)
	}
}

// decodeStreamCommand reads one command about streams, objects and the logs of nodes.
func decodeStreamCommand(r *reader, number uint8) Command {
	switch number {
	case numCreateStreams:
		return CreateStreams{Node: r.i32(), NodeEpoch: r.i64(), Count: r.u32()}
	case numOpenStream:
		return decodeOpenStream(r)
	case numTrimStream:
		return decodeTrimStream(r)
	case numCloseStream:
		return decodeCloseStream(r)
	case numDeleteStream:
		return decodeDeleteStream(r)
	case numPrepareObjects:
		return decodePrepareObjects(r)
	case numCommitObjects:
		return decodeCommitObjects(r)
	case numCompactStream:
		return decodeCompactStream(r)
	case numExpirePrepared:
		return ExpirePrepared{}
	case numCleanDestroyed:
		return CleanDestroyed{Objects: r.objects()}
	case numTransferStream:
		return TransferStream{Stream: r.stream(), From: r.i32(), To: r.i32()}
	case numCompleteTransfer:
		return CompleteTransfer{Stream: r.stream(), Epoch: r.i64()}
	case numPlaceStream:
		return PlaceStream{Stream: r.stream()}
	case numOpenWAL:
		return OpenWAL{Node: r.i32(), NodeEpoch: r.i64(), Start: r.i64()}
	case numCloseWAL:
		return CloseWAL{Node: r.i32(), NodeEpoch: r.i64(), Start: r.i64()}
	default:
		return decodeTableCommand(r, number)
	}
}

// decodeTableCommand reads one command about tables.
func decodeTableCommand(r *reader, number uint8) Command {
	switch number {
	case numCreateTable:
		return decodeCreateTable(r)
	case numDropTable:
		return DropTable{Table: TableID(r.u64())}
	case numAddSchema:
		return AddSchema{Table: TableID(r.u64()), ExpectedLast: r.i16(), Schema: r.blob()}
	case numCreatePartition:
		return CreatePartition{Table: TableID(r.u64()), Key: r.str()}
	case numDropPartition:
		return DropPartition{Table: TableID(r.u64()), Partition: PartitionID(r.u64())}
	case numAddBuckets:
		return AddBuckets{Table: TableID(r.u64()), Expected: r.u32(), Count: r.u32()}
	case numLeadBucket:
		return decodeLeadBucket(r)
	case numRegisterCoordinator:
		return RegisterCoordinator{Node: r.i32(), NodeEpoch: r.i64(), ExpectedEpoch: r.i64()}
	default:
		if r.err == nil {
			r.err = &VersionError{What: "command type", Got: uint64(number), Known: numRaiseProducerIDs}
		}
		return nil
	}
}
