package command

import (
	"fmt"
	"strings"
)

// checkOutput is the JSON of a check.
type checkOutput struct {
	Checked []checkedLog `json:"checked"`
	Summary checkSummary `json:"summary"`
}

// checkSummary ends a check: what was read, what was found, and what to do next.
type checkSummary struct {
	Partitions int   `json:"partitions"`
	Segments   int   `json:"segments"` // with a file of records
	Batches    int64 `json:"batches"`
	Records    int64 `json:"records"`
	Bytes      int64 `json:"bytes"`

	Unsound  int    `json:"unsound_partitions"`
	Shared   int    `json:"unsound_shared_files"` // checkpoints, journals and the like
	Repairs  int    `json:"repairs"`              // findings that a start repairs
	Problems int    `json:"problems"`             // findings that it does not
	Notes    int    `json:"notes"`
	Next     string `json:"next"` // empty if nothing is wrong
}

// summary adds up the results of checking some paths.
func (k *checkRun) summary(paths []string) checkSummary {
	s, byHand := checkSummary{}, false
	for _, r := range k.checked {
		s.Repairs, s.Problems, s.Notes = s.Repairs+len(r.Repairs), s.Problems+len(r.Problems), s.Notes+len(r.Notes)
		switch {
		case r.shared && !r.ok():
			s.Shared++
		case !r.shared:
			s.Partitions++
			s.Segments, s.Batches, s.Records = s.Segments+r.Segments, s.Batches+r.Batches, s.Records+r.Records
			s.Bytes += r.Bytes
			if !r.ok() {
				s.Unsound++
			}
			byHand = byHand || len(r.Problems) > 0 || r.loses
		}
	}
	repair := fmt.Sprintf("'tidemark log repair %s' shows how, and changes nothing without --apply", strings.Join(paths, " "))
	switch {
	case byHand:
		s.Next = "repair before the server starts: " + repair
	case s.Problems > 0:
		s.Next = "each problem above says what to do"
	case s.Unsound > 0:
		s.Next = "the next start of the server repairs that: " + repair
	case s.Repairs > 0:
		s.Next = "the next start of the server repairs that"
	}
	return s
}

// text is the summary in a few lines.
func (s checkSummary) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checked %s: %s, %s, %s, %s\n", plural(s.Partitions, "partition"), plural(s.Segments, "segment"),
		plural(s.Batches, "batch"), plural(s.Records, "record"), size(s.Bytes))
	if s.Repairs+s.Problems == 0 {
		b.WriteString("found nothing wrong")
	} else {
		fmt.Fprintf(&b, "found %s that a start repairs, %s that it does not", plural(s.Repairs, "fault"), count(s.Problems))
	}
	if s.Notes > 0 {
		fmt.Fprintf(&b, "; %s", plural(s.Notes, "note"))
	}
	b.WriteString("\n")
	return b.String()
}

// err is the error of a check that found something wrong, or nil.
func (s checkSummary) err() error {
	var what []string
	if s.Unsound > 0 {
		what = append(what, fmt.Sprintf("%d of %s", s.Unsound, plural(s.Partitions, "partition")))
	}
	if s.Shared > 0 {
		what = append(what, plural(s.Shared, "shared file"))
	}
	if len(what) == 0 {
		return nil
	}
	return fmt.Errorf("%s not sound; %s", strings.Join(what, " and "), s.Next)
}
