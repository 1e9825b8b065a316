//go:build !linux

package embedded

import "os"

// extend makes a file at least to bytes long, in blocks that the disk allocates now. The file must have no data at
// offset from and above.
func extend(f *os.File, from, to int64) error { return writeZeros(f, from, to) }
