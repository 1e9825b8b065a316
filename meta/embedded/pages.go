package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// What follows reads bbolt's pages with plain reads and checks every number before it is used. bbolt itself maps the file
// and trusts it: a damaged page makes it crash, loop, or quietly go back to an older state.
//
//	meta page 0, 1   header 16 | magic u32 | version u32 | page size u32 | flags u32 | root pgid u64 | root sequence u64
//	                 | freelist pgid u64 | pages u64 | txid u64 | FNV-1a-64 of these fields u64
//	page header      id u64 | flags u16 | count u16 | overflow pages u32
//	branch element   key position u32 | key size u32 | child pgid u64
//	leaf element     flags u32 | key position u32 | key size u32 | value size u32
//	bucket value     root pgid u64, 0 for inline | sequence u64 | the inline page
//
// Positions count from the element. Numbers are in the machine's byte order, little-endian on all that we run on.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeaderSize    = 16
	metaFieldsSize    = 56 // from magic to txid
	elementSize       = 16
	bucketHeaderSize  = 16
	flagBranch        = 0x01
	flagLeaf          = 0x02
	flagFreelist      = 0x10
	leafFlagBucket    = 0x01
	noFreelist        = ^uint64(0)
	maxDepth          = 32
	minPageSize       = 1 << 10
	maxPageSize       = 1 << 16
	freelistCountWide = 0xFFFF // the count is in the first element
)

var order = binary.LittleEndian

// boltMeta is one of the two meta pages.
type boltMeta struct {
	pageSize              uint32
	root, freelist, pages uint64
	txid                  uint64
}

// readMeta checks the meta page at off.
func readMeta(f io.ReaderAt, off int64) (boltMeta, error) {
	b := make([]byte, pageHeaderSize+metaFieldsSize+8)
	if _, err := f.ReadAt(b, off); err != nil {
		return boltMeta{}, fmt.Errorf("meta page at byte %d: %w", off, err)
	}
	b = b[pageHeaderSize:]
	h := fnv.New64a()
	_, _ = h.Write(b[:metaFieldsSize])
	switch {
	case order.Uint32(b) != boltMagic:
		return boltMeta{}, fmt.Errorf("meta page at byte %d: magic is %#x, not %#x", off, order.Uint32(b), boltMagic)
	case order.Uint64(b[metaFieldsSize:]) != h.Sum64():
		return boltMeta{}, fmt.Errorf("meta page at byte %d: its checksum does not match", off)
	case order.Uint32(b[4:]) != boltVersion:
		return boltMeta{}, fmt.Errorf("meta page at byte %d: bbolt version is %d, and this build knows %d", off,
			order.Uint32(b[4:]), boltVersion)
	}
	return boltMeta{
		pageSize: order.Uint32(b[8:]), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]),
		pages: order.Uint64(b[40:]), txid: order.Uint64(b[48:]),
	}, nil
}

// readMetas returns the newer meta page. Both must be valid: if the newer one is damaged, bbolt would fall back to the
// older one and the last acknowledged transaction would be gone without a word. A crash does not leave such a page,
// because the fields lie within the first sector of their page.
func readMetas(f io.ReaderAt, size int64) (boltMeta, error) {
	first, err := readMeta(f, 0)
	if err != nil {
		return boltMeta{}, err
	}
	if first.pageSize < minPageSize || first.pageSize > maxPageSize || first.pageSize&(first.pageSize-1) != 0 {
		return boltMeta{}, fmt.Errorf("page size is %d", first.pageSize)
	}
	second, err := readMeta(f, int64(first.pageSize))
	if err != nil {
		return boltMeta{}, err
	}
	newer, older := first, second
	if second.txid > first.txid {
		newer, older = second, first
	}
	switch {
	case newer.txid != older.txid+1 || newer.pageSize != older.pageSize:
		return boltMeta{}, fmt.Errorf("the meta pages are of transactions %d and %d, not of neighbours", first.txid, second.txid)
	case newer.pages < 4 || newer.pages > uint64(size)/uint64(newer.pageSize):
		return boltMeta{}, fmt.Errorf("the file has %d bytes and should have %d pages of %d", size, newer.pages, newer.pageSize)
	}
	return newer, nil
}

// walker reads the pages that one transaction can reach.
type walker struct {
	f    io.ReaderAt
	meta boltMeta
	seen []bool // pages that were reached, overflow included
}

func newWalker(f io.ReaderAt, m boltMeta) *walker {
	w := &walker{f: f, meta: m, seen: make([]bool, m.pages)}
	w.seen[0], w.seen[1] = true, true
	return w
}

// page reads a page with its overflow. A page that is reached twice is damage, which also rules out cycles.
func (w *walker) page(id uint64) ([]byte, error) {
	if id >= w.meta.pages {
		return nil, fmt.Errorf("page %d is beyond the last one, %d", id, w.meta.pages-1)
	}
	header := make([]byte, pageHeaderSize)
	off := int64(id) * int64(w.meta.pageSize)
	if _, err := w.f.ReadAt(header, off); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	if got := order.Uint64(header); got != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, got)
	}
	n := uint64(order.Uint32(header[12:])) + 1
	if n > w.meta.pages-id {
		return nil, fmt.Errorf("page %d has %d overflow pages, beyond the last page", id, n-1)
	}
	for i := id; i < id+n; i++ {
		if w.seen[i] {
			return nil, fmt.Errorf("page %d is used twice", i)
		}
		w.seen[i] = true
	}
	b := make([]byte, n*uint64(w.meta.pageSize))
	if _, err := w.f.ReadAt(b, off); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b, nil
}

// item is a key of a bucket. bucket says that value is a nested bucket's.
type item struct {
	key, value []byte
	bucket     bool
}

// visit walks one bucket and hands its items over in key order. An item is valid until the next one.
type visit struct {
	w    *walker
	last []byte // the key before; nil at first
	each func(item) error
}

// bucket hands over the items below a root page.
func (w *walker) bucket(root uint64, each func(item) error) error {
	v := &visit{w: w, each: each}
	return v.descend(root, 0, nil)
}

// nested hands over the items of a bucket that is the value of another one's item.
func (w *walker) nested(value []byte, each func(item) error) error {
	if len(value) < bucketHeaderSize {
		return fmt.Errorf("a bucket has %d bytes", len(value))
	}
	if root := order.Uint64(value); root != 0 {
		return w.bucket(root, each)
	}
	inline := value[bucketHeaderSize:]
	if len(inline) < pageHeaderSize || order.Uint16(inline[8:]) != flagLeaf {
		return fmt.Errorf("an inline bucket is not a leaf page")
	}
	v := &visit{w: w, each: each}
	return v.leaf(inline, nil)
}

// descend visits the pages below a page, whose first key must not be before low.
func (v *visit) descend(id uint64, depth int, low []byte) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d is more than %d levels deep", id, maxDepth)
	}
	page, err := v.w.page(id)
	if err != nil {
		return err
	}
	switch flags := order.Uint16(page[8:]); flags {
	case flagLeaf:
		err = v.leaf(page, low)
	case flagBranch:
		err = v.branch(page, depth)
	default:
		err = fmt.Errorf("its type is %#x, neither branch nor leaf", flags)
	}
	if err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (v *visit) branch(page []byte, depth int) error {
	n := int(order.Uint16(page[10:]))
	if n == 0 || pageHeaderSize+n*elementSize > len(page) {
		return fmt.Errorf("a branch of %d children", n)
	}
	for i := range n {
		at := pageHeaderSize + i*elementSize
		key, err := span(page, at, order.Uint32(page[at:]), order.Uint32(page[at+4:]))
		if err != nil {
			return fmt.Errorf("child %d: %w", i, err)
		}
		if v.last != nil && bytes.Compare(key, v.last) <= 0 {
			return fmt.Errorf("child %d begins at %q, not after %q", i, key, v.last)
		}
		if err := v.descend(order.Uint64(page[at+8:]), depth+1, key); err != nil {
			return err
		}
	}
	return nil
}

func (v *visit) leaf(page, low []byte) error {
	n := int(order.Uint16(page[10:]))
	if pageHeaderSize+n*elementSize > len(page) {
		return fmt.Errorf("a leaf of %d items", n)
	}
	for i := range n {
		it, err := leafItem(page, pageHeaderSize+i*elementSize)
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if bytes.Compare(it.key, low) < 0 || v.last != nil && bytes.Compare(it.key, v.last) <= 0 {
			return fmt.Errorf("item %d: key %q is out of order", i, it.key)
		}
		v.last = it.key
		if err := v.each(it); err != nil {
			return err
		}
	}
	return nil
}

func leafItem(page []byte, at int) (item, error) {
	flags, pos := order.Uint32(page[at:]), order.Uint32(page[at+4:])
	if flags != 0 && flags != leafFlagBucket {
		return item{}, fmt.Errorf("flags are %#x", flags)
	}
	key, err := span(page, at, pos, order.Uint32(page[at+8:]))
	if err != nil {
		return item{}, fmt.Errorf("key: %w", err)
	}
	value, err := span(page, at+len(key), pos, order.Uint32(page[at+12:]))
	if err != nil {
		return item{}, fmt.Errorf("value: %w", err)
	}
	return item{key: key, value: value, bucket: flags == leafFlagBucket}, nil
}

// span returns size bytes at base+pos of a page.
func span(page []byte, base int, pos, size uint32) ([]byte, error) {
	from, to := uint64(base)+uint64(pos), uint64(base)+uint64(pos)+uint64(size)
	if to > uint64(len(page)) {
		return nil, fmt.Errorf("bytes %d to %d are outside of the page", from, to)
	}
	return page[from:to], nil
}

// checkFreelist checks the list of free pages, if the file has one: in bounds, each once, none of them in use. It comes
// after everything that is reached was walked.
func (w *walker) checkFreelist() error {
	if w.meta.freelist == noFreelist {
		return nil
	}
	page, err := w.page(w.meta.freelist)
	if err != nil {
		return err
	}
	if flags := order.Uint16(page[8:]); flags != flagFreelist {
		return fmt.Errorf("page %d has type %#x, not that of the free list", w.meta.freelist, flags)
	}
	ids, n := page[pageHeaderSize:], uint64(order.Uint16(page[10:]))
	if n == freelistCountWide {
		n, ids = order.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return fmt.Errorf("the free list names %d pages and has room for %d", n, len(ids)/8)
	}
	for ; n > 0; n, ids = n-1, ids[8:] {
		id := order.Uint64(ids)
		if id >= w.meta.pages || w.seen[id] {
			return fmt.Errorf("the free list names page %d, which is in use or beyond the last one", id)
		}
		w.seen[id] = true
	}
	return nil
}
