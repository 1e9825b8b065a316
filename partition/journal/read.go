package journal

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/tidemark-io/tidemark/vfs"
)

// reader reads a journal.
type reader struct {
	name string
	file vfs.File
	size int64

	salvage bool // damage on one side does not keep the other one from being read
}

// located is an entry without its records, and where in the journal these are.
type located struct {
	Entry
	at     int64
	length int64
}

// entries calls each for every entry that a crash left behind, in the order in which they were added.
func (r *reader) entries(each func(located) error) error {
	b, err := r.bytes(0, sectorSize)
	if err != nil {
		return err
	}
	sideSize, err := decodeHeader(b)
	var unknown *unknownVersionError
	if errors.As(err, &unknown) {
		return &VersionError{File: r.name, Found: unknown.found, Known: fileVersion}
	}
	if err != nil { // making the file was cut short
		return r.noRounds(side{end: r.size}, 0, math.MaxUint64, err.Error())
	}
	sides := []side{{begin: sectorSize, end: sectorSize + sideSize}, {begin: sectorSize + sideSize, end: sectorSize + 2*sideSize}}
	for i := range sides {
		first, ok, err := r.header(sides[i].begin)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		sides[i].generation = first.generation
		if _, sides[i].certain, err = r.round(sides[i].begin, first.generation, 0); err != nil {
			return err
		}
	}
	slices.SortStableFunc(sides, func(a, b side) int { return cmp.Compare(a.generation, b.generation) })
	var damage *CorruptError
	for i, s := range sides {
		err := r.side(s, sides[1-i], each)
		var found *CorruptError
		if err != nil && (!r.salvage || !errors.As(err, &found)) {
			return err
		}
		if damage == nil {
			damage = found
		}
	}
	if damage != nil {
		return damage
	}
	return nil
}

// side is a part of the file, and the generation that its first bytes say its rounds have.
type side struct {
	begin, end int64
	generation uint64
	certain    bool // the first round is whole
}

// side reads the rounds of one side. Where the first round of a side was just being overwritten, what is behind it is older
// than the other one.
func (r *reader) side(s, other side, each func(located) error) error {
	at := s.begin
	for sequence := uint32(0); at < s.end; sequence++ {
		round, ok, err := r.round(at, s.generation, sequence)
		if err != nil {
			return err
		}
		if !ok {
			above, most := other.generation, uint64(math.MaxUint64)
			switch {
			case sequence > 0:
				above, most = s.generation-1, s.generation
			case other.certain:
				most = other.generation + 1
			}
			s.begin = at
			return r.noRounds(s, above, most, fmt.Sprintf("round %d is not there", sequence))
		}
		entryAt := at + roundHeaderSize
		for e, err := range decodeEntries(round) {
			if err != nil {
				return &CorruptError{File: r.name, Position: entryAt, Reason: err.Error()}
			}
			length := int64(len(e.Records))
			e.Records = nil
			if err := each(located{Entry: e, at: entryAt + entryHeaderSize, length: length}); err != nil {
				return err
			}
			entryAt += EntrySize(length)
		}
		at += sectors(roundHeaderSize + int64(len(round)))
	}
	return nil
}

// header reads what may be the header of a round, and reports false if it is none.
func (r *reader) header(at int64) (roundHeader, bool, error) {
	b, err := r.bytes(at, roundHeaderSize)
	if err != nil {
		return roundHeader{}, false, err
	}
	h, ok := decodeRoundHeader(b)
	return h, ok, nil
}

// round reads the entries of the round at a position, and reports false if the wanted one is not there in whole.
func (r *reader) round(at int64, generation uint64, sequence uint32) ([]byte, bool, error) {
	header, ok, err := r.header(at)
	if err != nil || !ok || header.generation != generation || header.sequence != sequence {
		return nil, false, err
	}
	b, err := r.bytes(at, roundHeaderSize+header.length)
	if err != nil || len(b) < roundHeaderSize+header.length {
		return nil, false, err
	}
	return b[roundHeaderSize:], crc32.Checksum(b[8:], castagnoli) == header.crc, nil
}

// searchSize is how much is read at once to look for a round.
const searchSize = 1 << 20

// noRounds makes sure that a part of the file has no whole round of a generation above the given one: that would say that
// what should be before it was durable, and has been damaged since. most is the highest that there may be; what claims a
// higher one is a client's.
func (r *reader) noRounds(s side, above, most uint64, reason string) error {
	for at := s.begin; at < min(s.end, r.size); at += searchSize {
		b, err := r.bytes(at, int(min(searchSize, s.end-at)))
		if err != nil {
			return err
		}
		for i := 0; i+roundHeaderSize <= len(b); i += sectorSize {
			found, ok := decodeRoundHeader(b[i:])
			if !ok || found.generation <= above || found.generation > most || at == s.begin && i == 0 {
				continue
			}
			if _, whole, err := r.round(at+int64(i), found.generation, found.sequence); err != nil || whole {
				return errors.Join(err, &CorruptError{
					File: r.name, Position: s.begin,
					Reason: fmt.Sprintf("%s, and round %d of generation %d is, at byte %d", reason, found.sequence, found.generation, at+int64(i)),
				})
			}
		}
	}
	return nil
}

// bytes returns up to n bytes from a position: fewer at the end of the file.
func (r *reader) bytes(at int64, n int) ([]byte, error) {
	b := make([]byte, max(min(int64(n), r.size-at), 0))
	if len(b) == 0 {
		return b, nil
	}
	if _, err := r.file.ReadAt(b, at); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}
