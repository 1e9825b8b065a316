package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTheDefaultsAreThoseOfTheSpecification holds the table of section 11 against what an engine takes. What is not a
// setting is a constant there and here.
func TestTheDefaultsAreThoseOfTheSpecification(t *testing.T) {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	require.Equal(t, Config{
		WALBatchBytes: 8 * mib, WALBatchInterval: 250 * time.Millisecond, WALMaxUnflushed: gib, WALInflight: 50,
		WALReadahead: 100 * mib, WALRecoverBlock: 512 * mib, WALTrimPersist: time.Second, WALMaxPutAge: 10 * time.Minute,
		WALFenceRetention: 7 * 24 * time.Hour,
		CacheWALSize:      200 * mib, CacheBlockSize: 100 * mib, CacheIndexSize: 100 * mib, CacheMaxStreams: 10_000,
		ReadaheadStep: 512 * kib, ReadaheadMax: 32 * mib, ReadaheadCooldown: 60 * time.Second,
		UploadThreshold: 100 * mib, UploadInterval: 60 * time.Second, UploadStreamSplit: 8 * mib,
		UploadPrepareTTL: 60 * time.Minute, ObjectBlockSize: mib, ObjectPartSize: 16 * mib,
		CompactInterval: 20 * time.Minute, CompactRetry: 10 * time.Second, CompactCache: 200 * mib, CompactSplit: 8 * mib,
		CompactMaxObjects: 500, CompactMaxStreams: 10_000, CompactMaxStreamObjects: 5_000,
		CompactForceSplitAge: 120 * time.Minute, CompactMinorInterval: 10 * time.Minute, CompactMajorInterval: 60 * time.Minute,
		CompactMaxStreamObject: gib, CompactPrepareTTL: 24 * time.Hour, CompactBandwidth: gib / 4,
		GCInterval: 10 * time.Second, GCGrace: 10 * time.Minute, GCBatch: 2000,
	}, DefaultConfig())
	require.EqualValues(t, 64*mib, Window)
	require.Equal(t, 64, maxInflight)
	require.EqualValues(t, 200*mib/3, DefaultConfig().uploadThreshold(), "capped at a third of the log cache")
	require.LessOrEqual(t, DefaultConfig().recoverBlock(), int64(100*mib), "at most half of the log cache")
}
