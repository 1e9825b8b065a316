// Package nearest suggests the known name closest to an unknown one.
package nearest

import "strings"

// Name returns the candidate with the fewest edits to name, ignoring case, or "" when the fewest are more than a third of
// its length.
func Name(name string, candidates []string) string {
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
