package embedded_test

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/meta/embedded"
)

// file returns every key and value of a bbolt file as hex.
func file(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	require.NoError(t, err)
	defer db.Close()
	out := map[string]string{}
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				key := hex.EncodeToString(k)
				if string(name) == "meta" {
					key = string(k)
				}
				out[string(name)+" "+key] = hex.EncodeToString(v)
				return nil
			})
		})
	}))
	return out
}

func TestFormatVersion1Golden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	b, err := embedded.Open(path, embedded.Options{ClusterID: "c"})
	require.NoError(t, err)
	entry, err := meta.Entry{Node: 5, NodeEpoch: 13, Nonce: 1, NowMs: 1_760_000_000_000,
		Commands: []meta.Command{meta.PutKv{Key: "a/b", Value: []byte("hi")}}}.Encode()
	require.NoError(t, err)
	require.NoError(t, b.Append(t.Context(), 1, entry))
	require.NoError(t, b.Append(t.Context(), 2, entry))
	s, _ := meta.Empty().Apply(2, meta.Entry{})
	snapshot := s.EncodeSnapshot()
	require.NoError(t, b.PutSnapshot(t.Context(), 2, snapshot))
	require.NoError(t, b.Close())
	require.Equal(t, map[string]string{
		"meta format":           "31" + "d69fe9ab",
		"meta cluster":          "63" + "110a6d08",
		"meta head":             "0200000000000000" + "56bcab65",
		"meta snapshots":        "0200000000000000" + "c500e6ab",
		"log 0000000000000001":  hex.EncodeToString(entry),
		"log 0000000000000002":  hex.EncodeToString(entry),
		"snap 0000000000000002": hex.EncodeToString(snapshot),
	}, file(t, path))
	require.NoError(t, embedded.Verify(path))
}

// rewrite changes one value of the bucket meta, with the checksum that fits or not.
func rewrite(t *testing.T, path, bucket string, change func(*bbolt.Bucket) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, Timeout: time.Second})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket([]byte(bucket))) }))
	require.NoError(t, db.Close())
}

// sealed is a value as the bucket meta keeps it.
func sealed(key, value string) []byte {
	sum := crc32.Checksum([]byte(key+value), crc32.MakeTable(crc32.Castagnoli))
	return binary.LittleEndian.AppendUint32([]byte(value), sum)
}

func TestF13_AFileWhoseItemsContradictEachOtherIsRefused(t *testing.T) {
	le := func(v uint64) string { return string(binary.LittleEndian.AppendUint64(nil, v)) }
	written, _ := writtenLog(t)
	be := func(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
	for _, c := range []struct {
		name, bucket string
		change       func(*bbolt.Bucket) error
		want         string
	}{
		{"a newer format", "meta", func(b *bbolt.Bucket) error { return b.Put([]byte("format"), sealed("format", "2")) },
			"format of the metadata file is 2, and this build knows up to 1"},
		{"no format", "meta", func(b *bbolt.Bucket) error { return b.Delete([]byte("format")) }, "format version is missing"},
		{"a format that is no number", "meta", func(b *bbolt.Bucket) error { return b.Put([]byte("format"), sealed("format", "x")) },
			`format version is "x"`},
		{"a checksum of another key", "meta", func(b *bbolt.Bucket) error { return b.Put([]byte("head"), sealed("tail", le(131))) },
			`"head" has checksum`},
		{"no cluster id", "meta", func(b *bbolt.Bucket) error { return b.Delete([]byte("cluster")) }, "cluster id is missing"},
		{"no head", "meta", func(b *bbolt.Bucket) error { return b.Delete([]byte("head")) }, "head is missing"},
		{"a head before the newest entry", "meta", func(b *bbolt.Bucket) error { return b.Put([]byte("head"), sealed("head", le(130))) },
			"newest entry is 131 and the head is 130"},
		{"a head after the newest entry", "meta", func(b *bbolt.Bucket) error { return b.Put([]byte("head"), sealed("head", le(132))) },
			"newest entry is 131 and the head is 132"},
		{"a snapshot that is not listed", "meta", func(b *bbolt.Bucket) error {
			return b.Put([]byte("snapshots"), sealed("snapshots", le(120)))
		}, "snapshots [120] are listed, [80 120] exist"},
		{"a snapshot that is not there", "snap", func(b *bbolt.Bucket) error { return b.Delete(be(120)) },
			"snapshots [80 120] are listed, [80] exist"},
		{"a snapshot under another index", "snap", func(b *bbolt.Bucket) error { return b.Put(be(80), b.Get(be(120))) },
			"snapshot 80: it was taken at 120"},
		{"an entry missing in the middle", "log", func(b *bbolt.Bucket) error { return b.Delete(be(100)) },
			"101: it follows entry 99"},
		{"an entry missing after the older snapshot", "log", func(b *bbolt.Bucket) error { return b.Delete(be(81)) },
			"log entry 81 is missing and no snapshot covers it (head is 131)"},
		{"an entry that does not decode", "log", func(b *bbolt.Bucket) error { return b.Put(be(110), []byte("TMML")) },
			"log entry 110: at byte 4: 4 bytes are too few"},
		{"a key that is no index", "log", func(b *bbolt.Bucket) error { return b.Put([]byte("x"), nil) }, "is not an index"},
		{"a bucket in a bucket", "log", func(b *bbolt.Bucket) error { _, err := b.CreateBucket([]byte("x")); return err }, "is a bucket"},
		{"another bucket", "log", func(b *bbolt.Bucket) error { _, err := b.Tx().CreateBucket([]byte("notes")); return err },
			`"notes" is not a known bucket`},
		{"a missing bucket", "log", func(b *bbolt.Bucket) error { return b.Tx().DeleteBucket([]byte("snap")) }, "its buckets are"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "meta.db")
			copyFile(t, written, path)
			rewrite(t, path, c.bucket, c.change)
			_, err := embedded.Open(path, embedded.Options{MustExist: true})
			require.ErrorContains(t, err, c.want)
			requireNamesFile(t, err, path)
		})
	}
}

func TestAFileWithAStoredFreeListIsReadToo(t *testing.T) {
	path, want := writtenLog(t)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second}) // as other tools open it
	require.NoError(t, err)
	require.NoError(t, db.Close())
	got, err := openState(path, embedded.Options{MustExist: true})
	require.NoError(t, err)
	require.Equal(t, want, got)
}
