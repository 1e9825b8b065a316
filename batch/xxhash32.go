package batch

import (
	"encoding/binary"
	"math/bits"
)

// The constants of xxHash32, from its specification.
const (
	xxPrime1 = 2654435761
	xxPrime2 = 2246822519
	xxPrime3 = 3266489917
	xxPrime4 = 668265263
	xxPrime5 = 374761393
)

// xxhash32 returns the 32-bit xxHash of b with seed 0: LZ4's checksum.
func xxhash32(b []byte) uint32 {
	h := uint32(xxPrime5)
	length := uint32(len(b))
	if len(b) >= 16 {
		var lane [4]uint32
		lane[0], lane[1] = xxPrime1, xxPrime2
		lane[0] += xxPrime2
		lane[3] -= xxPrime1
		for ; len(b) >= 16; b = b[16:] {
			for i := range lane {
				lane[i] = xxRound(lane[i], binary.LittleEndian.Uint32(b[4*i:]))
			}
		}
		h = bits.RotateLeft32(lane[0], 1) + bits.RotateLeft32(lane[1], 7) +
			bits.RotateLeft32(lane[2], 12) + bits.RotateLeft32(lane[3], 18)
	}
	h += length
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}

func xxRound(lane, input uint32) uint32 {
	return bits.RotateLeft32(lane+input*xxPrime2, 13) * xxPrime1
}
