package command

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress draws one line that fills as work is done. Off a terminal it prints only the last state, once.
type progress struct {
	w        io.Writer
	terminal bool
	label    string
	total    int64
	unit     func(int64) string // formats numbers
	now      func() time.Time
	start    time.Time
	drawn    time.Time
}

// barWidth is in columns; redraws are at least redrawEvery apart so that drawing costs nothing.
const (
	barWidth    = 30
	redrawEvery = 100 * time.Millisecond
)

func newProgress(w io.Writer, label string, total int64) *progress {
	p := &progress{w: w, terminal: isTerminal(w), label: label, total: total, unit: count[int64], now: time.Now}
	p.start = p.now()
	return p
}

// set shows that done of the total are finished.
func (p *progress) set(done int64) {
	if !p.terminal {
		return
	}
	now := p.now()
	if now.Sub(p.drawn) < redrawEvery {
		return
	}
	p.drawn = now
	fmt.Fprintf(p.w, "\r%s", p.line(done, now))
}

// finish shows the end state and moves to the next line.
func (p *progress) finish(done int64) {
	line := p.line(done, p.now())
	if p.terminal {
		fmt.Fprintf(p.w, "\r%s\n", line)
		return
	}
	fmt.Fprintln(p.w, line)
}

func (p *progress) line(done int64, now time.Time) string {
	filled := barWidth
	if p.total > 0 && done < p.total {
		filled = int(done * barWidth / p.total)
	}
	bar := strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled)
	return fmt.Sprintf("%-10s %s %s / %s  %s/s", p.label, bar, p.unit(done), p.unit(p.total), p.unit(p.rate(done, now)))
}

// rate returns the average per second since the start.
func (p *progress) rate(done int64, now time.Time) int64 {
	elapsed := now.Sub(p.start).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return int64(float64(done) / elapsed)
}
