package coordinator

import "unicode/utf16"

// PartitionFor returns the partition of __consumer_offsets, of n partitions, that a group belongs to. It is Kafka's rule,
// which tools compute too: Java's String.hashCode of the id, over UTF-16 code units, without its sign, modulo n.
func PartitionFor(group string, n int32) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(group)) {
		h = 31*h + int32(unit)
	}
	return (h & 0x7fffffff) % n
}
