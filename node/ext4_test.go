//go:build ext4

package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the other crash tests show of a file system in memory, these show of ext4: what is left of a disk when its power
// is cut is what has reached the device. They need root, mkfs.ext4 and loop devices, so they are not part of the usual run:
//
//	go test -tags ext4 -run Ext4 ./node

// ext4 is a file system of its own, in an image that stands for the device.
type ext4 struct {
	t     *testing.T
	image string
	mount string
}

// newExt4 makes an empty one, which writes to its device when something is synced and hardly by itself.
func newExt4(t *testing.T) *ext4 {
	image := filepath.Join(t.TempDir(), "device")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 64<<20))
	command(t, "mkfs.ext4", "-q", "-F", image)
	return mounted(t, image)
}

func mounted(t *testing.T, image string) *ext4 {
	f := &ext4{t: t, image: image, mount: t.TempDir()}
	command(t, "mount", "-o", "loop,commit=600", image, f.mount)
	t.Cleanup(func() { command(t, "umount", f.mount) })
	return f
}

func command(t *testing.T, name string, args ...string) {
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", name, out)
}

// cut returns what the device holds now, mounted after a recovery of its journal, as after a power cut. The original goes on.
func (f *ext4) cut() *ext4 {
	before := f.device()
	for { // until nothing was written while it was read
		now := f.device()
		if sha256.Sum256(now) == sha256.Sum256(before) {
			break
		}
		before = now
	}
	image := filepath.Join(f.t.TempDir(), "device")
	require.NoError(f.t, os.WriteFile(image, before, 0o600))
	return mounted(f.t, image)
}

func (f *ext4) device() []byte {
	bytes, err := os.ReadFile(f.image)
	require.NoError(f.t, err)
	return bytes
}

// node starts a server on the file system and returns a client of it.
func (f *ext4) node() *kgo.Client {
	n, err := onDisk(f.t, filepath.Join(f.mount, "data"))
	require.NoError(f.t, err)
	c := clientOf(f.t, n)
	f.t.Cleanup(func() {
		c.Close()
		require.NoError(f.t, n.Close(context.Background()))
	})
	return c
}

func TestAPowerCutOfExt4TakesWhatWasNotSynced(t *testing.T) {
	f := newExt4(t)
	kept, lost := filepath.Join(f.mount, "kept"), filepath.Join(f.mount, "lost")
	for _, name := range []string{kept, lost} {
		file, err := os.Create(name)
		require.NoError(t, err)
		_, err = file.WriteString("content")
		require.NoError(t, err)
		if name == kept {
			require.NoError(t, file.Sync())
			_, err = file.WriteString(" and more")
			require.NoError(t, err)
		}
		require.NoError(t, file.Close())
	}
	left := f.cut()
	content, err := os.ReadFile(filepath.Join(left.mount, "kept"))
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
	_, err = os.Stat(filepath.Join(left.mount, "lost"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestF79_WhatIsAcknowledgedOnExt4SurvivesAPowerCut(t *testing.T) {
	disk := newExt4(t)
	c := disk.node()
	admin := kadm.NewClient(c)
	starts := func(c *kgo.Client) (at []int64) {
		listed, err := kadm.NewClient(c).ListStartOffsets(within(t), "orders")
		require.NoError(t, err)
		for _, l := range listed.Offsets().Sorted() {
			at = append(at, l.At)
		}
		return at
	}
	ends := func(c *kgo.Client) (at []int64) {
		listed, err := kadm.NewClient(c).ListEndOffsets(within(t), "orders")
		require.NoError(t, err)
		for _, l := range listed.Offsets().Sorted() {
			at = append(at, l.At)
		}
		return at
	}
	// after lets look see a server that starts on what a power cut leaves at this moment.
	after := func(what string, look func(t *testing.T, c *kgo.Client)) {
		t.Run(what, func(t *testing.T) {
			left := disk.cut()
			left.t = t
			look(t, left.node())
		})
	}

	createTopic(t, c, 2, map[string]string{"retention.ms": "123456"}, "orders")
	after("a topic was created", func(t *testing.T, c *kgo.Client) {
		require.Equal(t, []int64{0, 0}, ends(c))
	})
	for i := range 10 {
		produce(t, c, "orders", 0, fmt.Sprint(i))
	}
	after("records were answered", func(t *testing.T, c *kgo.Client) {
		require.Equal(t, []int64{10, 0}, ends(c))
	})
	for below := int64(1); below <= 10; below += 3 {
		require.NoError(t, deleteBelow(t, c, "orders", below))
		after(fmt.Sprintf("records below %d were deleted", below), func(t *testing.T, c *kgo.Client) {
			require.Equal(t, []int64{below, 0}, starts(c))
			require.Equal(t, []int64{10, 0}, ends(c))
		})
	}
	require.NoError(t, addPartitions(t, c, "orders", 3))
	after("a partition was added", func(t *testing.T, c *kgo.Client) {
		require.Equal(t, []int64{10, 0, 0}, starts(c))
	})
	committed, err := admin.CommitOffsets(within(t), "billing", kadm.Offsets{"orders": {0: {Topic: "orders", At: 7, LeaderEpoch: -1}}})
	require.NoError(t, err)
	require.NoError(t, committed.Error())
	after("an offset was committed", func(t *testing.T, c *kgo.Client) {
		fetched, err := kadm.NewClient(c).FetchOffsets(within(t), "billing")
		require.NoError(t, err)
		require.Equal(t, int64(7), fetched["orders"][0].At)
	})
	altered, err := admin.AlterTopicConfigs(within(t), []kadm.AlterConfig{{Name: "retention.ms", Value: kmsg.StringPtr("654321")}}, "orders")
	require.NoError(t, err)
	require.NoError(t, altered[0].Err)
	after("a setting was changed", func(t *testing.T, c *kgo.Client) {
		described, err := kadm.NewClient(c).DescribeTopicConfigs(within(t), "orders")
		require.NoError(t, err)
		var out bytes.Buffer
		for _, config := range described[0].Configs {
			if config.Key == "retention.ms" {
				out.WriteString(config.MaybeValue())
			}
		}
		require.Equal(t, "654321", out.String())
	})
	deleted, err := admin.DeleteTopics(within(t), "orders")
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	after("the topic was deleted", func(t *testing.T, c *kgo.Client) {
		topics, err := kadm.NewClient(c).ListTopics(within(t), "orders")
		require.NoError(t, err)
		require.ErrorIs(t, topics["orders"].Err, kerr.UnknownTopicOrPartition)
	})
}
