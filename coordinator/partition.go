package coordinator

import "unicode/utf16"

// PartitionFor is the partition of __consumer_offsets that a group lives in, of n partitions: Kafka's rule, which tools
// compute too. It is Java's String.hashCode of the id, over UTF-16 code units, without its sign, modulo n.
func PartitionFor(group string, n int32) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(group)) {
		h = 31*h + int32(unit)
	}
	return (h & 0x7fffffff) % n
}
