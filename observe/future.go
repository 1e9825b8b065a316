package observe

import (
	"path"
	"strconv"
	"strings"
	"sync"
)

// futurePartitions is of how many partitions with records from the future there is a series. A client whose clock is wrong may
// write to all partitions that there are.
const futurePartitions = 100

// futureCounters count how often retention found records from the future, by the directory of the log.
type futureCounters struct {
	mu    sync.Mutex
	byDir map[string]int64
}

// add counts one, unless there are enough directories without it.
func (c *futureCounters) add(dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.byDir[dir]; !known && len(c.byDir) == futurePartitions {
		return
	}
	if c.byDir == nil {
		c.byDir = map[string]int64{}
	}
	c.byDir[dir]++
}

// counts returns a copy.
func (c *futureCounters) counts() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := make(map[string]int64, len(c.byDir))
	for dir, n := range c.byDir {
		counts[dir] = n
	}
	return counts
}

// drop forgets directories that were counted as often as given, and not since.
func (c *futureCounters) drop(gone map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for dir, n := range gone {
		if c.byDir[dir] == n {
			delete(c.byDir, dir)
		}
	}
}

// forget forgets the partitions of a topic: another one of its name may get the same directories.
func (c *futureCounters) forget(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for dir := range c.byDir {
		index, ok := strings.CutPrefix(path.Base(dir), topic+"-")
		if _, err := strconv.ParseInt(index, 10, 32); ok && err == nil {
			delete(c.byDir, dir)
		}
	}
}
