package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/tidemark-io/tidemark/batch"
	"github.com/tidemark-io/tidemark/vfs"
)

// A journal that waits for space says in its first sector for which partitions, see the drawing of the format: to write it
// over takes no space, and a disk writes it as a whole or not at all.
const (
	waitsAt     = headerSize
	waitsFlags  = waitsAt + 4
	waitsKeys   = waitsAt + 8
	waitsBits   = waitsAt + 12
	waitingBits = (sectorSize - waitsBits) * 8

	flagWaits = uint32(1)
	flagLeft  = uint32(2)
)

// waitingMarks are what a waiting journal records about itself.
type waitingMarks struct {
	left bool // a file of another partition was left alone
	keys uint32
	bits [waitingBits / 8]byte
}

func (m *waitingMarks) set(number int) { m.bits[number%waitingBits/8] |= 1 << (number % 8) }

// has reports whether a partition waits. Of many thousands several have one bit, and wait together.
func (m *waitingMarks) has(number int) bool { return m.bits[number%waitingBits/8]&(1<<(number%8)) != 0 }

// put writes the marks into the first sector.
func (m *waitingMarks) put(sector []byte) {
	flags := flagWaits
	if m.left {
		flags |= flagLeft
	}
	binary.BigEndian.PutUint32(sector[waitsFlags:], flags)
	binary.BigEndian.PutUint32(sector[waitsKeys:], m.keys)
	copy(sector[waitsBits:sectorSize], m.bits[:])
	binary.BigEndian.PutUint32(sector[waitsAt:], crc32.Checksum(sector[waitsFlags:sectorSize], castagnoli))
}

// waitingMarksOf reads the marks of a first sector, and reports false if there are none or they are damaged.
func waitingMarksOf(sector []byte) (m waitingMarks, ok bool) {
	if len(sector) < sectorSize || binary.BigEndian.Uint32(sector[waitsAt:]) != crc32.Checksum(sector[waitsFlags:sectorSize], castagnoli) {
		return m, false
	}
	flags := binary.BigEndian.Uint32(sector[waitsFlags:])
	m.left, m.keys = flags&flagLeft != 0, binary.BigEndian.Uint32(sector[waitsKeys:])
	copy(m.bits[:], sector[waitsBits:])
	return m, flags&flagWaits != 0
}

// keysSum is the checksum of the partitions, without which the numbers say nothing.
func keysSum(keys []Key) uint32 {
	var b []byte
	for _, k := range keys {
		b = binary.BigEndian.AppendUint32(append(b, k.Topic[:]...), uint32(k.Partition))
	}
	return crc32.Checksum(b, castagnoli)
}

// restrict leaves out what does not wait, if the journal says what does. waiting says that the file's name is that of one that does.
func (r *replay) restrict(waiting bool) error {
	sector, err := r.reader.bytes(0, sectorSize)
	if err != nil {
		return err
	}
	marks, ok := waitingMarksOf(sector)
	ok = ok && marks.keys == keysSum(r.keys)
	r.doubt = waiting && !ok
	if ok {
		r.left = r.left || marks.left
		var lacking []*target
		for _, t := range r.targets {
			if marks.has(t.number) {
				lacking = append(lacking, t)
			}
		}
		r.targets = lacking
	}
	counted := map[Key]bool{}
	for _, k := range r.unknown {
		if r.KeepUnknown && (!ok || marks.has(r.numbers[k])) {
			counted[k] = true
		}
	}
	r.done.Unknown = len(counted)
	return nil
}

// markLacking makes durable which partitions wait, before any other is served. Those that cannot be told apart from them
// wait too.
func (r *replay) markLacking() error {
	marks := waitingMarks{left: r.left, keys: keysSum(r.keys)}
	lacks := map[int]bool{}
	for _, t := range r.lacking {
		marks.set(t.number)
		lacks[t.number] = true
	}
	cause := r.done.Lacking[0].Err
	for _, t := range r.targets {
		if marks.has(t.number) && !lacks[t.number] {
			r.lack(t, cause)
		}
	}
	sector, err := r.reader.bytes(0, sectorSize)
	if err != nil {
		return err
	}
	marks.put(sector)
	file, err := r.FS.Open(r.reader.name, vfs.ReadWrite)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(sector, 0); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// walk is how far the batches of a file were looked at.
type walk struct {
	at   int64 // where the next one begins
	next int64 // the offset that it has at least
}

// wouldContinue returns "" if batches would continue, at a position, with what whole batches in front of it end with,
// and nothing is there but a beginning of them, and zeros. Otherwise it says why they are not put there: the file may
// have been rewritten.
func (w *walk) wouldContinue(file vfs.File, position, size int64, want, have []byte) (reason string, err error) {
	const because = ", and the journal does not say whether the log still waits for it"
	same := 0
	for same < min(len(want), len(have)) && want[same] == have[same] {
		same++
	}
	if len(bytes.Trim(have[same:], "\x00")) > 0 {
		return fmt.Sprintf("at %d it differs from what the journal has%s", position+int64(same), because), nil
	}
	if w.at > position {
		*w = walk{}
	}
	for w.at < position {
		found, err := wholeBatch(file, w.at, size)
		if err != nil {
			return "", err
		}
		if found == nil {
			return fmt.Sprintf("at %d it has no whole batch%s", w.at, because), nil
		}
		w.at, w.next = w.at+int64(len(found)), found.NextOffset()
	}
	first, _, err := batch.Next(want)
	if err != nil || w.at != position || first.BaseOffset() < w.next {
		return fmt.Sprintf("what the journal holds of it does not continue at %d%s", position, because), nil
	}
	return "", nil
}
