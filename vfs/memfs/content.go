package memfs

import (
	"maps"
	"math"
	"slices"
)

// pageSize is the unit in which a file's bytes are kept and copied.
const pageSize = 4096

// maxSize bounds a file, so that a wrong offset is an error and not all of the memory.
const maxSize = 64 << 30

// maxStates bounds how many truncations of one file a crash can choose between.
const maxStates = 16

// page is a part of an image. Its bytes may be shared with other images; era tells who may write to them.
type page struct {
	data *[pageSize]byte // nil reads as zeros
	era  uint64
}

// image is the content of a file at one moment. Bytes of a page that lie at or after size are zero.
type image struct {
	pages []page
	size  int64
}

// content is the content of a file, and what it might be after a crash.
//
// Between two syncs a file passes through states, one more with each truncation that makes it shorter. A crash finds it
// in one of them: the durable image cut to the shortest length so far (floor), with any of the state's unsynced pages
// laid over it. So cut bytes come back only in a state that knew no newer ones.
type content struct {
	live    image
	durable image
	// era is the era of the pages that only live holds, which may be written in place.
	era uint64
	// dirty are the pages in which the live image may differ from the durable one cut to floor.
	dirty map[int]struct{}
	// dropped are the pages that a failed sync gave up: the live image still has their bytes, the durable one does not, and
	// no sync writes them before they are written again.
	dropped map[int]struct{}
	floor   int64
	past    []state
}

// state is a past of the content that a crash may return to.
type state struct {
	floor int64
	size  int64
	dirty map[int]page
}

func newContent() content {
	return content{era: 1, dirty: map[int]struct{}{}, dropped: map[int]struct{}{}, floor: math.MaxInt64}
}

// read copies from off on and returns the number of bytes copied.
func (m *image) read(p []byte, off int64) int {
	if off >= m.size {
		return 0
	}
	p = p[:min(int64(len(p)), m.size-off)]
	for done := 0; done < len(p); {
		i, at := locate(off + int64(done))
		part := p[done:min(len(p), done+pageSize-at)]
		if i < len(m.pages) && m.pages[i].data != nil {
			copy(part, m.pages[i].data[at:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	return len(p)
}

// own returns page i of the image for writing, a copy if it does not belong to era.
func (m *image) own(i int, era uint64) *[pageSize]byte {
	for len(m.pages) <= i {
		m.pages = append(m.pages, page{})
	}
	p := &m.pages[i]
	if p.data == nil || p.era != era {
		fresh := new([pageSize]byte)
		if p.data != nil {
			*fresh = *p.data
		}
		*p = page{fresh, era}
	}
	return p.data
}

// cut makes the image at most size long.
func (m *image) cut(size int64, era uint64) {
	if size >= m.size {
		return
	}
	m.size = size
	i, at := locate(size)
	keep := i
	if at > 0 {
		keep++
	}
	if keep < len(m.pages) {
		clear(m.pages[keep:])
		m.pages = m.pages[:keep]
	}
	if at > 0 && i < len(m.pages) && m.pages[i].data != nil {
		clear(m.own(i, era)[at:])
	}
}

// clone shares the pages. The caller gives the original a new era.
func (m *image) clone() image {
	return image{pages: slices.Clone(m.pages), size: m.size}
}

func locate(off int64) (pageIndex, at int) {
	return int(off / pageSize), int(off % pageSize)
}

func (c *content) write(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	c.live.size = max(c.live.size, off+int64(len(p)))
	for len(p) > 0 {
		i, at := locate(off)
		n := copy(c.live.own(i, c.era)[at:], p)
		c.dirty[i] = struct{}{}
		delete(c.dropped, i)
		p, off = p[n:], off+int64(n)
	}
}

func (c *content) truncate(size int64) {
	if size >= c.live.size {
		c.live.size = size // a hole
		return
	}
	c.remember()
	c.live.cut(size, c.era)
	beyond := func(i int, _ struct{}) bool { return int64(i)*pageSize >= size }
	maps.DeleteFunc(c.dirty, beyond)
	maps.DeleteFunc(c.dropped, beyond)
	c.floor = min(c.floor, size)
}

// remember keeps the present as a state that a crash may return to. Of too many one in the middle is forgotten.
func (c *content) remember() {
	c.past = append(c.past, c.present())
	c.era++
	if len(c.past) > maxStates {
		c.past = slices.Delete(c.past, maxStates/2, maxStates/2+1)
	}
}

// present is the state of now. It shares the live pages.
func (c *content) present() state {
	s := state{floor: c.floor, size: c.live.size, dirty: make(map[int]page, len(c.dirty))}
	for i := range c.dirty {
		s.dirty[i] = c.live.pages[i]
	}
	return s
}

// sync makes the live image the durable one.
func (c *content) sync() {
	c.durable.cut(c.floor, c.era)
	for i := range c.dirty {
		for len(c.durable.pages) <= i {
			c.durable.pages = append(c.durable.pages, page{})
		}
		c.durable.pages[i] = c.live.pages[i]
	}
	c.durable.size = c.live.size
	c.floor, c.past = math.MaxInt64, nil
	clear(c.dirty)
	c.era++
}

// drop discards what a sync would have written.
func (c *content) drop() {
	maps.Copy(c.dropped, c.dirty)
	clear(c.dirty)
}

// keepCached takes over the pages that a sync of another content dropped: a machine that runs on still has their bytes.
func (c *content) keepCached(of *content) {
	for i := range of.dropped {
		c.dropped[i] = struct{}{}
		if of.live.pages[i].data != nil {
			*c.live.own(i, c.era) = *of.live.pages[i].data
		}
	}
}
