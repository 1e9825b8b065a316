package config

import (
	"fmt"
	"strings"
)

// UnknownKeyError says that there is no key of this name.
type UnknownKeyError struct {
	// Key is the name as given: of a flag, of an environment variable, or in the file.
	Key string
	// Nearest is the name most like it in the same place, or "" when none is close.
	Nearest string
	// Source says where it was given.
	Source Source
}

// Error names the key, the nearest one and the source.
func (e *UnknownKeyError) Error() string {
	msg := fmt.Sprintf("%s: unknown key %s", e.Source, e.Key)
	if e.Nearest != "" {
		msg += fmt.Sprintf(" (did you mean %s?)", e.Nearest)
	}
	return msg
}

// ValueError says that a key's value is not what the key takes.
type ValueError struct {
	Key string
	// Value is the value as given, with secrets hidden.
	Value string
	// Source says where it was given.
	Source Source
	// Reason says what a value must be.
	Reason string
}

// Error names the source, the key, the value and the reason.
func (e *ValueError) Error() string {
	return fmt.Sprintf("%s: %s is %q: %s", e.Source, e.Key, e.Value, e.Reason)
}

// Nearest returns the candidate with the fewest edits to name, or "" when the fewest are more than a third of its length.
func Nearest(name string, candidates []string) string {
	best, bestEdits := "", len(name)/3+1
	for _, c := range candidates {
		if n := edits(strings.ToLower(name), strings.ToLower(c)); n < bestEdits {
			best, bestEdits = c, n
		}
	}
	return best
}

// edits is the Levenshtein distance between two names, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
