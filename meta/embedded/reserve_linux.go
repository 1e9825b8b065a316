package embedded

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// extend makes a file at least to bytes long, all of it in blocks that the disk allocates now. The file must have no data
// at offset from and above.
func extend(f *os.File, from, to int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, to)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return writeZeros(f, from, to)
		default:
			return err
		}
	}
}
