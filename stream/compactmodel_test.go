package stream

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestF32_CompactionAgreesWithAModel does whatever a node may do with its committed objects, with faults, and reads every
// live record back after each step.
func TestF32_CompactionAgreesWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDepot(t, 4)
		live := func() int {
			var open []int
			for s, id := range d.streams {
				if _, exists := d.metadata.View().Stream(id); exists {
					open = append(open, s)
				}
			}
			if len(open) == 0 {
				return -1
			}
			return rapid.SampledFrom(open).Draw(t, "stream")
		}
		size := rapid.SampledFrom([]int{1, 10, 100, 400})
		config := func(c *compactConfig) {
			c.plans.cacheBytes = int64(rapid.SampledFrom([]int{1, 300, 5000}).Draw(t, "cache"))
			c.plans.maxStreams = rapid.SampledFrom([]int{1, 3, 100}).Draw(t, "max streams")
			c.plans.maxStreamObjects = rapid.SampledFrom([]int{1, 100}).Draw(t, "max stream objects")
			c.majorBytes = int64(rapid.SampledFrom([]int{1000, 100_000}).Draw(t, "major"))
			c.deadBytes = int64(rapid.SampledFrom([]int{0, 600}).Draw(t, "dead"))
		}
		// sometimes a job is interrupted at one of its calls.
		during := func(job func(ctx context.Context) error) {
			if !rapid.Bool().Draw(t, "interrupted") {
				require.NoError(t, job(t.Context()))
				return
			}
			i := &interruption{at: rapid.IntRange(0, 30).Draw(t, "at"), after: rapid.Bool().Draw(t, "after"), crash: true}
			d.interrupt(i, func(ctx context.Context) { _ = job(ctx) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { d.verify() },
			"upload a set": func(t *rapid.T) {
				var runs []run
				for s, id := range d.streams {
					if _, exists := d.metadata.View().Stream(id); exists && rapid.Bool().Draw(t, "in it") {
						runs = append(runs, run{s, rapid.IntRange(1, 4).Draw(t, "count"), size.Draw(t, "size")})
					}
				}
				if len(runs) > 0 {
					d.set(runs...)
				}
			},
			"upload an object": func(t *rapid.T) {
				if s := live(); s >= 0 {
					d.object(run{s, rapid.IntRange(1, 8).Draw(t, "count"), size.Draw(t, "size")})
				}
			},
			"trim": func(t *rapid.T) {
				if s := live(); s >= 0 {
					row, _ := d.metadata.View().Stream(d.streams[s])
					d.trim(s, rapid.Int64Range(row.Start, row.End).Draw(t, "to"))
				}
			},
			"delete": func(t *rapid.T) {
				if s := live(); s >= 0 && rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					d.deleteStream(s)
				}
			},
			"set round": func(t *rapid.T) {
				c := d.compactor(config)
				during(func(ctx context.Context) error {
					_, err := c.setRound(ctx)
					return err
				})
			},
			"object round": func(t *rapid.T) {
				c, s := d.compactor(config), rapid.IntRange(0, 3).Draw(t, "stream")
				major := rapid.Bool().Draw(t, "major")
				during(func(ctx context.Context) error { return c.objectRound(ctx, d.streams[s], major) })
			},
			"clean": func(t *rapid.T) {
				during(func(ctx context.Context) error {
					_, err := d.cleaner().round(ctx)
					return err
				})
			},
			"time": func(t *rapid.T) {
				hours := rapid.IntRange(0, 30).Draw(t, "hours")
				d.wait(time.Duration(hours)*time.Hour + time.Second)
			},
		})
		d.cleanAll()
	})
}
