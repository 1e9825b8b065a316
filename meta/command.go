package meta

// Command is one change to the state. The types of this package are the only ones: [CreateTopic], [AdoptTopic],
// [DeleteTopic], [CreatePartitions], [SetTopicConfigs], [RaiseLeaderEpochs], [RegisterNode], [AllocateProducerIDs],
// [RaiseProducerIDs], [PutKv], [PutKvIfAbsent], [DeleteKv], [DeleteKvIfMatches] and [CasKv]. Their fields must not change while they are proposed.
type Command interface {
	// Type is the number of the command: its's first byte in an entry.
	Type() uint8
	// encode writes the fields.
	encode(w *writer)
	// apply changes the state, or rejects and leaves it as it was.
	apply(t *transition) Result
}

// The numbers of the commands that this build knows. They are on disk; see the package documentation for the ranges.
const (
	numRegisterNode        = 10
	numPutKv               = 12
	numPutKvIfAbsent       = 13
	numDeleteKv            = 14
	numDeleteKvIfMatches   = 19
	numAllocateProducerIDs = 20
	numCasKv               = 21
	numCreateTopic         = 50
	numDeleteTopic         = 51
	numCreatePartitions    = 52
	numAdoptTopic          = 53
	numSetTopicConfigs     = 60
	numRaiseLeaderEpochs   = 70
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
	case numRaiseProducerIDs:
		return RaiseProducerIDs{Next: r.u64()}
	default:
		if r.err == nil {
			r.err = &VersionError{What: "command type", Got: uint64(number), Known: numRaiseProducerIDs}
		}
		return nil
	}
}
