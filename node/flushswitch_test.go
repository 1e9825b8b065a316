package node_test

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/node/nodetest"
	"github.com/tidemark-io/tidemark/vfs"
	"github.com/tidemark-io/tidemark/vfs/faultfs"
)

// flushSwitches are the ways to make a topic stop following the page cache while the server runs, and back.
func flushSwitches() map[string]func(t *testing.T, c *kgo.Client, mode string) error {
	return map[string]func(t *testing.T, c *kgo.Client, mode string) error{
		"of the topic": func(t *testing.T, c *kgo.Client, mode string) error {
			return alter(t, c, "orders", map[string]string{"tidemark.flush": mode})
		},
		"of all nodes": func(t *testing.T, c *kgo.Client, mode string) error {
			return alterNodes(t, c, "tidemark.flush", mode)
		},
	}
}

func TestWhatATopicHeldWhenItStoppedFollowingThePageCacheSurvivesAPowerCut(t *testing.T) {
	for how, change := range flushSwitches() {
		t.Run(how, func(t *testing.T) {
			for seed := range uint64(6) {
				m := machine(t)
				m.Start()
				c := client(t, m, kgo.ProducerBatchCompression(kgo.NoCompression()))
				createTopic(t, c, 1, nil, "orders")
				require.NoError(t, change(t, c, "os"))
				for i := range 10 {
					produce(t, c, "orders", 0, fmt.Sprint(i))
				}
				require.NoError(t, change(t, c, "group"))
				m.CutPower(nodetest.Cut{Seed: seed, Keep: 0.5})
				m.Start()
				require.Equal(t, "group", setting(t, c, "orders", "tidemark.flush"))
				require.Len(t, consume(t, m, "orders"), 10)
				c.Close()
				m.Stop()
			}
		})
	}
}

// A topic whose records cannot be synced goes on following the page cache.
func TestATopicThatCannotBeSyncedDoesNotStopFollowingThePageCache(t *testing.T) {
	for how, change := range flushSwitches() {
		t.Run(how, func(t *testing.T) {
			m := machine(t)
			var disk *faultfs.FS
			m.Wrap = func(fs vfs.FS) vfs.FS {
				disk = faultfs.New(fs, nil)
				return disk
			}
			m.Start()
			c := client(t, m)
			createTopic(t, c, 1, nil, "orders")
			require.NoError(t, change(t, c, "os"))
			produce(t, c, "orders", 0, "visible")
			disk.SetInjector(faultfs.FailMatching(faultfs.OpSync, "*.log", syscall.EIO))
			require.ErrorIs(t, change(t, c, "group"), kerr.KafkaStorageError)
			require.Equal(t, "os", setting(t, c, "orders", "tidemark.flush"))
			disk.SetInjector(nil)
			m.CutPower(nodetest.Cut{Seed: 1, Keep: 0})
			m.Start()
			require.Empty(t, consume(t, m, "orders"), "as it may be under os")
			c.Close()
			m.Stop()
		})
	}
}

// Of a partition that is not open nothing can be synced, so the watermark that it had is no longer written anywhere.
func TestTheWatermarkOfAnUnopenedPartitionIsForgottenWhenItsTopicStopsFollowingThePageCache(t *testing.T) {
	for how, change := range flushSwitches() {
		t.Run(how, func(t *testing.T) {
			m := machine(t)
			m.Config.HighWatermarkCheckpoint = time.Millisecond
			m.Start()
			c := client(t, m)
			createTopic(t, c, 1, nil, "orders")
			require.NoError(t, change(t, c, "os"))
			produce(t, c, "orders", 0, "visible")
			watermarks := func() string {
				data, err := vfs.ReadFile(m.FS, path.Join(nodetest.DataDir, "replication-offset-checkpoint"))
				require.NoError(t, err)
				return string(data)
			}
			require.Eventually(t, func() bool { return strings.Contains(watermarks(), "orders 0 1\n") }, patience, time.Millisecond)
			m.CutPower(nodetest.Cut{Seed: 1, Keep: 1})

			m.Wrap = func(fs vfs.FS) vfs.FS {
				return faultfs.New(fs, faultfs.FailMatching(faultfs.OpList, "*orders-0", syscall.EIO))
			}
			m.Start()
			require.Contains(t, watermarks(), "orders 0 1\n")
			require.NoError(t, change(t, c, "group"))
			require.NotContains(t, watermarks(), "orders 0")
			m.Wrap = nil
			m.CutPower(nodetest.Cut{Seed: 2, Keep: 1})
			m.Start()
			require.Len(t, consume(t, m, "orders"), 1)
			c.Close()
			m.Stop()
		})
	}
}

// The default is changed in the configuration of a server that does not run, whose last stop was no stop in order: what the
// checkpoint says of the log was written when it followed the page cache.
func TestADefaultThatIsChangedWhileTheServerIsDownTakesNoWatermarkOfThePageCacheForFlushed(t *testing.T) {
	const marks, watermarks = "tidemark.page-cached", "replication-offset-checkpoint"
	for name, between := range map[string]func(t *testing.T, m *nodetest.Machine){
		"the next start": func(*testing.T, *nodetest.Machine) {},
		"the list is damaged": func(t *testing.T, m *nodetest.Machine) {
			require.NoError(t, vfs.WriteFileAtomic(m.FS, path.Join(nodetest.DataDir, marks), []byte("0\n1\nor")))
		},
		"a start before it": func(t *testing.T, m *nodetest.Machine) {
			m.Wrap = func(fs vfs.FS) vfs.FS { // that does not come to the log
				return faultfs.New(fs, faultfs.FailMatching(faultfs.OpList, "*orders-0", syscall.EIO))
			}
			m.Start()
			m.Stop()
			m.Wrap = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t)
			m.Config.HighWatermarkCheckpoint = time.Millisecond
			m.Config.TopicDefaults = map[string]string{"tidemark.flush": "os"}
			m.Start()
			c := client(t, m)
			createTopic(t, c, 1, nil, "orders")
			for range 10 {
				produce(t, c, "orders", 0, "visible")
			}
			holds := func(disk vfs.FS, file, line string) bool {
				data, err := vfs.ReadFile(disk, path.Join(nodetest.DataDir, file))
				return err == nil && strings.Contains(string(data), line)
			}
			said := func(file, line string) bool { return holds(m.FS, file, line) }
			require.Eventually(t, func() bool { return holds(m.FS.CrashClean(), watermarks, "orders 0 10\n") }, patience, time.Millisecond)
			require.True(t, said(marks, "orders 0 0\n"))
			m.CutPower(nodetest.Cut{Seed: 1, Keep: 0})
			require.True(t, said(watermarks, "orders 0 10\n"))

			m.Config.TopicDefaults = nil
			between(t, m)
			m.Start()
			require.Empty(t, consume(t, m, "orders"), "as it may be under os")
			require.Equal(t, position{"orders", 0, 0}, produce(t, c, "orders", 0, "synced"))
			require.Eventually(t, func() bool { return said(watermarks, "orders 0 1\n") && !said(marks, "orders") }, patience, time.Millisecond)
			m.CutPower(nodetest.Cut{Seed: 2, Keep: 0})
			m.Start()
			require.Len(t, consume(t, m, "orders"), 1)
			c.Close()
			m.Stop()
		})
	}
}
