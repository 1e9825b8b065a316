package meta

import (
	"fmt"

	"github.com/tidemark-io/tidemark/stream/catalog"
)

// Code says why a command was rejected. It is an error, so that a caller can write errors.Is(err, meta.TopicExists).
// The numbers are written in snapshots and traces of other rooms and never change.
type Code uint8

// The rejection codes. 1 to 30 are those of the object stream specification; those that no command here returns yet
// keep their number for the packages that will.
const (
	OK Code = 0

	StreamNotExist     Code = 1
	StreamNotClosed    Code = 2
	StreamFenced       Code = 3
	ExpiredEpoch       Code = 4
	NodeEpochMismatch  Code = 5 // the node is unknown or its epoch differs
	Redundant          Code = 6 // the same change was already made; callers may treat it as success
	NotContiguous      Code = 7
	ObjectNotPrepared  Code = 8
	ObjectIDInUse      Code = 9
	CompactionLoses    Code = 10
	StreamNotOpened    Code = 11
	OffsetOutOfRange   Code = 12
	TableExists        Code = 20
	TableNotExist      Code = 21
	PartitionExists    Code = 22
	PartitionNotExist  Code = 23
	SchemaConflict     Code = 24
	SchemaLimit        Code = 25
	SchemaIncompatible Code = 26
	BucketConflict     Code = 27
	LeaderFenced       Code = 28
	CoordinatorFenced  Code = 29
	InvalidArgument    Code = 30 // counts, sizes, empty keys

	TopicExists            Code = 40 // the name is taken
	TopicNotExist          Code = 41 // no topic has this id
	TopicNameCollides      Code = 42 // another name differs from this one only in . and _
	TopicIDInUse           Code = 43 // the id belongs to another topic
	PartitionCountConflict Code = 44 // the topic does not have the expected number of partitions
	ConfigConflict         Code = 45 // the settings are not at the expected version

	LevelTooLow Code = 46 // a node understands less than the level asks for

	Unexpected Code = 99 // never produced on purpose
)

// Error returns the code's name.
func (c Code) Error() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("code %d", uint8(c))
}

// Is reports whether a code is one of package catalog's refusals, so that errors.Is finds those too.
func (c Code) Is(target error) bool {
	refusal, ok := refusals[c]
	return ok && refusal == target
}

var refusals = map[Code]error{
	StreamNotExist: catalog.ErrStreamNotExist, StreamNotClosed: catalog.ErrStreamNotClosed,
	StreamFenced: catalog.ErrStreamFenced, ExpiredEpoch: catalog.ErrExpiredEpoch,
	NodeEpochMismatch: catalog.ErrNodeEpochMismatch, Redundant: catalog.ErrRedundant,
	NotContiguous: catalog.ErrNotContiguous, ObjectNotPrepared: catalog.ErrObjectNotPrepared,
	ObjectIDInUse: catalog.ErrObjectIDInUse, CompactionLoses: catalog.ErrCompactionLosesData,
	StreamNotOpened: catalog.ErrStreamNotOpened, OffsetOutOfRange: catalog.ErrOffsetOutOfRange,
	InvalidArgument: catalog.ErrInvalidArgument, LeaderFenced: catalog.ErrStreamFenced,
}

var codeNames = map[Code]string{
	OK: "ok", StreamNotExist: "stream does not exist", StreamNotClosed: "stream is not closed",
	StreamFenced: "stream is fenced", ExpiredEpoch: "stream epoch has expired",
	NodeEpochMismatch: "node epoch does not match", Redundant: "change is already in",
	NotContiguous: "range is not contiguous", ObjectNotPrepared: "object is not prepared",
	ObjectIDInUse: "object id is in use", CompactionLoses: "compaction would lose data",
	StreamNotOpened: "stream is not opened", OffsetOutOfRange: "offset is out of range",
	TableExists: "table exists", TableNotExist: "table does not exist", PartitionExists: "partition exists",
	PartitionNotExist: "partition does not exist", SchemaConflict: "schema has moved on",
	SchemaLimit: "no schema id is left", SchemaIncompatible: "schema is incompatible",
	BucketConflict: "bucket count does not match", LeaderFenced: "leader is fenced",
	CoordinatorFenced: "coordinator is fenced", InvalidArgument: "invalid argument",
	TopicExists: "topic exists", TopicNotExist: "topic does not exist", TopicNameCollides: "topic name collides",
	TopicIDInUse: "topic id is in use", PartitionCountConflict: "partition count does not match",
	ConfigConflict: "topic settings have moved on", LevelTooLow: "level is not understood", Unexpected: "unexpected",
}

// Result is the outcome of one command. Each command documents which fields it sets; the others are zero. Value is
// shared with the state and must not be modified.
type Result struct {
	// Code is OK, or why the command was rejected and changed nothing.
	Code Code
	// Detail says in words what was wrong. It is the same on every node.
	Detail string
	// ID is an epoch, a version, or the first of several consecutive ids.
	ID uint64
	// Count is how many items were changed.
	Count uint64
	// Swapped is the result of CasKv.
	Swapped bool
	// Value and Version are a key's value; Version 0 means that the key is absent.
	Value   []byte
	Version uint64
	// Stream is the result of OpenStream.
	Stream *catalog.Stream
	// Streams are those that were created, or that are to be destroyed.
	Streams []catalog.StreamID
}

// Err returns nil for OK and a [*Rejection] otherwise.
func (r Result) Err() error {
	if r.Code == OK {
		return nil
	}
	return &Rejection{Code: r.Code, Detail: r.Detail}
}

// Rejection is a rejected command as an error. errors.Is finds its [Code].
type Rejection struct {
	Code   Code
	Detail string
}

// Error gives the code and the detail.
func (e *Rejection) Error() string {
	if e.Detail == "" {
		return "meta: " + e.Code.Error()
	}
	return "meta: " + e.Code.Error() + ": " + e.Detail
}

// Unwrap returns the code.
func (e *Rejection) Unwrap() error { return e.Code }

func reject(code Code, format string, args ...any) Result {
	return Result{Code: code, Detail: fmt.Sprintf(format, args...)}
}
