package batch

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

// readPayload reads the sample batch with its records in the given compressed form.
func readPayload(codec Codec, payload []byte) ([]Record, error) {
	return collect(withPayload(sampleHeader(codec), payload), Limits{})
}

// requirePayloadError checks that a payload fails with the codec's own error.
func requirePayloadError(t *testing.T, codec Codec, payload []byte, want error, name string) {
	t.Helper()
	_, err := readPayload(codec, payload)
	var fault *PayloadError
	require.ErrorAs(t, err, &fault, name)
	require.Equal(t, codec, fault.Codec, name)
	if want != nil {
		require.ErrorIs(t, fault.Err, want, name)
	}
}

func requireSample(t *testing.T, codec Codec, payload []byte, name string) {
	t.Helper()
	records, err := readPayload(codec, payload)
	require.NoError(t, err, name)
	require.Equal(t, sample(), records, name)
}

func TestF68_TruncatedPayloadsAreErrors(t *testing.T) {
	for codec := Gzip; codec <= Zstd; codec++ {
		payload := compressed(t, codec, sample())
		for cut := range payload {
			_, err := readPayload(codec, payload[:cut])
			var decode *DecodeError
			require.ErrorAs(t, err, &decode, "%v cut after %d of %d bytes", codec, cut, len(payload))
		}
		_, err := readPayload(codec, append(slices.Clone(payload), 0))
		require.Error(t, err, "%v with a byte behind it", codec)
	}
}

func TestF68_GzipMembersMayFollowOneAnother(t *testing.T) {
	raw := rawRecords(t, sample())
	var payload bytes.Buffer
	for _, part := range [][]byte{raw[:11], nil, raw[11:40], raw[40:]} {
		w := gzip.NewWriter(&payload)
		_, err := w.Write(part)
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	requireSample(t, Gzip, payload.Bytes(), "four members")
	damaged := payload.Bytes()
	damaged[len(damaged)-8] ^= 1
	requirePayloadError(t, Gzip, damaged, gzip.ErrChecksum, "wrong checksum")
}

func xerial(version, least uint32) []byte {
	b := []byte(snappyMagic)
	b = binary.BigEndian.AppendUint32(b, version)
	return binary.BigEndian.AppendUint32(b, least)
}

func xerialBlock(raw []byte) []byte {
	block := s2.EncodeSnappy(nil, raw)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(block))), block...)
}

func TestF68_SnappyDialects(t *testing.T) {
	raw := rawRecords(t, sample())
	header := xerial(1, 1)
	for name, payload := range map[string][]byte{
		"raw block":             s2.EncodeSnappy(nil, raw),
		"xerial, one block":     slices.Concat(header, xerialBlock(raw)),
		"xerial, three blocks":  slices.Concat(header, xerialBlock(raw[:7]), xerialBlock(raw[7:900]), xerialBlock(raw[900:])),
		"xerial, joined":        slices.Concat(header, xerialBlock(raw[:7]), header, xerialBlock(raw[7:])),
		"xerial, an empty one":  slices.Concat(header, xerialBlock(raw[:7]), xerialBlock(nil), xerialBlock(raw[7:])),
		"xerial, newer version": slices.Concat(xerial(2, 1), xerialBlock(raw)),
		"xerial, little-endian": slices.Concat(xerial(1<<24, 1<<24), xerialBlock(raw)),
	} {
		requireSample(t, Snappy, payload, name)
	}
}

func TestF68_BrokenSnappyIsAnError(t *testing.T) {
	raw := rawRecords(t, sample())
	block := s2.EncodeSnappy(nil, raw)
	header := xerial(1, 1)
	size := func(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	for name, c := range map[string]struct {
		payload []byte
		err     error
	}{
		"header cut off":                   {header[:12], errTruncated},
		"second header cut off":            {slices.Concat(header, xerialBlock(raw), header[:9]), errTruncated},
		"second header broken":             {slices.Concat(header, xerialBlock(raw), header[:4], make([]byte, 12)), errSnappyHeader},
		"length cut off":                   {slices.Concat(header, xerialBlock(raw[:9]), []byte{0, 0, 0}), errTruncated},
		"length negative":                  {slices.Concat(header, size(-5), block), errSnappyHeader},
		"length beyond the payload":        {slices.Concat(header, size(1<<30), block), errTruncated},
		"length zero":                      {slices.Concat(header, size(0)), errSnappyBlock},
		"little-endian length":             {slices.Concat(header, binary.LittleEndian.AppendUint32(nil, uint32(len(block))), block), errTruncated},
		"claims four gigabytes":            {append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, block...), errSnappySize},
		"claims more than fits in 32 bits": {append([]byte{0xff, 0xff, 0xff, 0xff, 0x7f}, block...), errSnappyBlock},
		"yields more than it claims":       {append([]byte{block[0] - 1}, block[1:]...), errSnappyBlock},
		"yields less than it claims":       {append([]byte{block[0] + 1}, block[1:]...), errSnappyBlock},
		"copies from before its start":     {[]byte{6, 0 << 2, 'a', 1 | 1<<2, 9}, errSnappyBlock},
		"S2 with a repeated offset":        {[]byte{9, 0 << 2, 'a', 1, 1, 1, 0}, errSnappyBlock},
		"literal cut off":                  {[]byte{9, 61 << 2, 1}, errSnappyBlock},
		"copy cut off":                     {[]byte{9, 0, 'a', 3, 1, 0}, errSnappyBlock},
	} {
		requirePayloadError(t, Snappy, c.payload, c.err, name)
	}
}

func TestSnappyAgreesWithTheLibraryOnRealBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 400 {
		raw := make([]byte, rng.IntN(3000*(n%20+1)))
		for i := range raw {
			raw[i] = byte(rng.IntN(n%5*10 + 2))
		}
		for _, block := range [][]byte{s2.EncodeSnappy(nil, raw), s2.EncodeSnappyBetter(nil, raw), s2.EncodeSnappyBest(nil, raw)} {
			got, err := decodeSnappyBlock(nil, block, 1<<40)
			require.NoError(t, err)
			require.True(t, bytes.Equal(raw, got))
		}
	}
}

func lz4Frame(t testing.TB, raw []byte, options ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	require.NoError(t, w.Apply(options...))
	_, err := w.Write(raw)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestF68_LZ4FramesThatOthersWrite(t *testing.T) {
	raw := rawRecords(t, sample())
	for name, options := range map[string][]lz4.Option{
		"64 KiB blocks":    {lz4.BlockSizeOption(lz4.Block64Kb)},
		"256 KiB blocks":   {lz4.BlockSizeOption(lz4.Block256Kb)},
		"1 MiB blocks":     {lz4.BlockSizeOption(lz4.Block1Mb)},
		"4 MiB blocks":     {lz4.BlockSizeOption(lz4.Block4Mb)},
		"block checksums":  {lz4.BlockChecksumOption(true)},
		"content size":     {lz4.SizeOption(uint64(len(raw)))},
		"no checksum":      {lz4.ChecksumOption(false)},
		"high compression": {lz4.CompressionLevelOption(lz4.Level5)},
	} {
		requireSample(t, LZ4, lz4Frame(t, raw, options...), name)
	}
	marked := compressed(t, LZ4, sample())
	marked[len(marked)-1] = 0x80
	requireSample(t, LZ4, marked, "an end mark that is marked as stored")
}

func TestLZ4FrameIsTheOneThatKafkaWrites(t *testing.T) {
	noise := make([]byte, 100<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	payload := compressed(t, LZ4, []Record{{Timestamp: 1, Value: noise}})
	require.Equal(t, []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}, payload[:7])
	require.Equal(t, uint32(64<<10|1<<31), binary.LittleEndian.Uint32(payload[7:]), "noise is stored as it is, 64 KiB at a time")
	require.Equal(t, make([]byte, 4), payload[len(payload)-4:], "the end mark")

	got, err := io.ReadAll(lz4.NewReader(bytes.NewReader(payload)))
	require.NoError(t, err)
	require.Equal(t, rawRecords(t, []Record{{Timestamp: 1, Value: noise}}), got)
}

func TestF68_BrokenLZ4IsAnError(t *testing.T) {
	raw := rawRecords(t, sample())
	good := compressed(t, LZ4, sample())
	reseal := func(frame []byte) []byte {
		at := 6
		if frame[4]&lz4ContentSize != 0 {
			at += 8
		}
		frame[at] = byte(xxhash32(frame[4:at]) >> 8)
		return frame
	}
	with := func(frame []byte, at int, b byte) []byte {
		frame = slices.Clone(frame)
		frame[at] = b
		return reseal(frame)
	}
	checked := lz4Frame(t, raw, lz4.BlockChecksumOption(true))
	for name, c := range map[string]struct {
		payload []byte
		err     error
	}{
		"wrong magic":             {append([]byte{0}, good[1:]...), errLZ4Magic},
		"legacy magic":            {append([]byte{0x02}, good[1:]...), errLZ4Magic},
		"wrong header checksum":   {append(append(slices.Clone(good[:6]), good[6]^1), good[7:]...), errLZ4Header},
		"checksum over the magic": {append(append(slices.Clone(good[:6]), byte(xxhash32(good[:6])>>8)), good[7:]...), errLZ4Header},
		"dependent blocks":        {with(good, 4, 0x40), errLZ4Dependent},
		"version 0":               {with(good, 4, 0x20), errLZ4Flags},
		"version 2":               {with(good, 4, 0xa0), errLZ4Flags},
		"a dictionary":            {with(good, 4, 0x61), errLZ4Flags},
		"a reserved flag":         {with(good, 4, 0x62), errLZ4Flags},
		"a block size of 32 KiB":  {with(good, 5, 0x30), errLZ4Flags},
		"a reserved bit in BD":    {with(good, 5, 0xc0), errLZ4Flags},
		"a low bit in BD":         {with(good, 5, 0x41), errLZ4Flags},
		"no end mark":             {good[:len(good)-4], errTruncated},
		"no content checksum":     {lz4Frame(t, raw)[:len(lz4Frame(t, raw))-4], errTruncated},
		"a second frame":          {slices.Concat(good, good), errLZ4Trailing},
		"a block above the size":  {slices.Concat(good[:7], []byte{1, 0, 1, 0x80}, make([]byte, 70000)), errLZ4BlockSize},
		"a block that is noise":   {slices.Concat(good[:7], []byte{5, 0, 0, 0}, []byte{0xff, 1, 2, 3, 4}, make([]byte, 4)), errLZ4Block},
		"a block checksum wrong":  {append(append(slices.Clone(checked[:len(checked)-9]), checked[len(checked)-9]^1), checked[len(checked)-8:]...), errLZ4BlockSum},
	} {
		requirePayloadError(t, LZ4, c.payload, c.err, name)
	}
}

func TestXXHash32Vectors(t *testing.T) {
	require.Equal(t, uint32(0x02cc5d05), xxhash32(nil))
	require.Equal(t, uint32(0x550d7456), xxhash32([]byte("a")))
	require.Equal(t, uint32(0x32d153ff), xxhash32([]byte("abc")))
	require.Equal(t, uint32(0xe2293b2f), xxhash32([]byte("Nobody inspects the spammish repetition")))
}

func zstdFrame(t testing.TB, raw []byte, options ...zstd.EOption) []byte {
	w, err := zstd.NewWriter(nil, append(options, zstd.WithEncoderConcurrency(1))...)
	require.NoError(t, err)
	defer w.Close()
	return w.EncodeAll(raw, nil)
}

// zstdStream returns a frame that does not say its content size and declares the encoder's window.
func zstdStream(t testing.TB, raw []byte, options ...zstd.EOption) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, append(options, zstd.WithEncoderConcurrency(1))...)
	require.NoError(t, err)
	for len(raw) > 0 {
		n := min(len(raw), 1000)
		_, err := w.Write(raw[:n])
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		raw = raw[n:]
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestF68_ZstdFramesThatOthersWrite(t *testing.T) {
	raw := rawRecords(t, sample())
	skip := append([]byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0}, "abc"...)
	for name, payload := range map[string][]byte{
		"one frame":              zstdFrame(t, raw),
		"without a checksum":     zstdFrame(t, raw, zstd.WithEncoderCRC(false)),
		"single segment":         zstdFrame(t, raw, zstd.WithSingleSegment(true)),
		"a stream":               zstdStream(t, raw),
		"a window of 128 MiB":    zstdStream(t, raw, zstd.WithWindowSize(128<<20)),
		"several frames":         slices.Concat(zstdFrame(t, raw[:9]), zstdStream(t, raw[9:3000]), zstdFrame(t, raw[3000:])),
		"an empty frame between": slices.Concat(zstdFrame(t, raw[:9]), zstdFrame(t, nil, zstd.WithZeroFrames(true)), zstdFrame(t, raw[9:])),
		"a skippable frame":      slices.Concat(skip, zstdFrame(t, raw), skip),
	} {
		requireSample(t, Zstd, payload, name)
	}
}

func TestF68_BrokenZstdIsAnError(t *testing.T) {
	raw := rawRecords(t, sample())
	good := zstdFrame(t, raw)
	stream := zstdStream(t, raw)
	with := func(frame []byte, at int, b byte) []byte {
		frame = slices.Clone(frame)
		frame[at] = b
		return frame
	}
	for name, c := range map[string]struct {
		payload []byte
		err     error
	}{
		"wrong magic":              {with(good, 0, 0), errZstdFrame},
		"a reserved bit":           {with(good, 4, good[4]|zstdReservedBit), errZstdFrame},
		"a reserved block type":    {with(stream, 6, stream[6]|6), errZstdFrame},
		"a wrong checksum":         {with(good, len(good)-1, good[len(good)-1]^1), nil},
		"a dictionary":             {zstdFrame(t, raw, zstd.WithEncoderDictRaw(7, raw[:100])), nil},
		"a content size too large": {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0x7f, 0x01, 0, 0}, errZstdFrame},
		"a block above 128 KiB":    {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x70, 0xfb, 0xff, 0xff, 'a'}, errZstdFrame},
		"something behind":         {append(slices.Clone(good), "garbage"...), errZstdFrame},
	} {
		requirePayloadError(t, Zstd, c.payload, c.err, name)
	}
}

func TestZstdWindowIsBelievedOnlyAsFarAsBlocksFillIt(t *testing.T) {
	raw := rawRecords(t, sample())
	d, err := newZstdDecoder()
	require.NoError(t, err)
	read := func(payload []byte) uint64 {
		require.NoError(t, d.reset(payload))
		var got []byte
		for {
			got, err = d.decode(got, 1<<40)
			if err != nil {
				break
			}
		}
		require.Equal(t, io.EOF, err)
		window := d.in.window
		require.True(t, d.release())
		return window
	}
	blocks := uint64(len(raw)/1000 + 1)
	require.LessOrEqual(t, read(zstdStream(t, raw, zstd.WithWindowSize(128<<20))), 2*blocks*zstdMaxBlock)
	require.Equal(t, uint64(len(raw)), read(zstdFrame(t, raw, zstd.WithSingleSegment(true))))

	var huge []byte // a frame of more blocks than any window holds, in a window above the limit
	huge = append(huge, 0x28, 0xb5, 0x2f, 0xfd, 0x00, 18<<3)
	for range 2000 {
		huge = append(huge, 0x02, 0x00, 0x10, 'a') // 128 KiB of one byte
	}
	huge = append(huge, 0x01, 0x00, 0x00)
	requirePayloadError(t, Zstd, huge, errZstdWindow, "a window of 256 MiB that is filled")
}

func TestF81_WholeBatchesThatDoNotDecodeStayWhole(t *testing.T) {
	wrong := compressed(t, LZ4, sample())
	wrong[6] ^= 1
	more := sampleHeader(None)
	more.Count = 4
	for name, b := range map[string]Batch{
		"bare snappy":                withPayload(sampleHeader(Snappy), s2.EncodeSnappy(nil, rawRecords(t, sample()))),
		"lz4 with a wrong checksum":  withPayload(sampleHeader(LZ4), wrong),
		"unknown codec":              withPayload(sampleHeader(6), []byte("whatever")),
		"payload of noise":           withPayload(sampleHeader(Zstd), []byte("noise")),
		"more records than counted":  withPayload(more, rawRecords(t, sample())),
		"payload of a snappy stream": withPayload(sampleHeader(Snappy), compressed(t, Snappy, sample())),
	} {
		next, rest, err := Next(b)
		require.NoError(t, err, name)
		require.Empty(t, rest, name)
		require.NoError(t, next.VerifyCRC(), name)
		require.NoError(t, next.Header().Check(), name)
		require.Equal(t, int64(5), next.NextOffset(), name)
	}
}
