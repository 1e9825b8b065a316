package nearest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/internal/nearest"
)

func TestTheNearestNameIsTheOneWithTheFewestEdits(t *testing.T) {
	known := []string{"retention.ms", "retention.bytes", "segment.ms"}
	for given, want := range map[string]string{
		"retension.ms":  "retention.ms",
		"Retention.MS":  "retention.ms",
		"retention.byt": "retention.bytes",
		"segmentms":     "segment.ms",
		"zzz":           "",
		"":              "",
	} {
		require.Equal(t, want, nearest.Name(given, known), given)
	}
}
