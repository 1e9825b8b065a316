package batch

// source is a stream of decompressed bytes.
type source struct{}

func newSource(codec Codec, payload []byte, limit int64) (*source, error) {
	return nil, &UnknownCodecError{ID: codec}
}
func (s *source) fill(keep []byte) ([]byte, error) { return keep, nil }
func (s *source) release()                         {}
