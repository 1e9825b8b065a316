package batch

// Varints are the zigzag value (0, -1, 1, -2, 2 ... become 0, 1, 2, 3, 4 ...) in groups of seven bits, the least
// significant first; the top bit of a byte says that another follows. An int32 takes at most 5 bytes and an int64 at
// most 10; a continuation bit on the last of these is an error, and bits of it that do not fit are ignored, as in Kafka.
const (
	maxVarint32 = 5
	maxVarint64 = 10
)

// varint32 decodes an int32 at the start of b and returns how many bytes it took: 0 when b ends too early, -1 when the
// value goes on past the fifth byte.
func varint32(b []byte) (v int32, n int) {
	if len(b) >= 2 { // nearly every varint in a batch takes one byte or two
		u := uint32(b[0])
		if u < 0x80 {
			return int32(u>>1) ^ -int32(u&1), 1
		}
		if b[1] < 0x80 {
			u = u&0x7f | uint32(b[1])<<7
			return int32(u>>1) ^ -int32(u&1), 2
		}
	}
	return varint32Slow(b)
}

func varint32Slow(b []byte) (int32, int) {
	var u uint32
	for i, c := range b {
		if i == maxVarint32-1 && c >= 0x80 {
			return 0, -1
		}
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
	}
	return 0, 0
}

// varint64 is varint32 for an int64.
func varint64(b []byte) (v int64, n int) {
	if len(b) >= 2 {
		u := uint64(b[0])
		if u < 0x80 {
			return int64(u>>1) ^ -int64(u&1), 1
		}
		if b[1] < 0x80 {
			u = u&0x7f | uint64(b[1])<<7
			return int64(u>>1) ^ -int64(u&1), 2
		}
	}
	return varint64Slow(b)
}

func varint64Slow(b []byte) (int64, int) {
	var u uint64
	for i, c := range b {
		if i == maxVarint64-1 && c >= 0x80 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}

func appendVarint32(b []byte, v int32) []byte {
	u := uint32(v<<1) ^ uint32(v>>31)
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

func appendVarint64(b []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

func sizeVarint32(v int32) int {
	n := 1
	for u := uint32(v<<1) ^ uint32(v>>31); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func sizeVarint64(v int64) int {
	n := 1
	for u := uint64(v<<1) ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
