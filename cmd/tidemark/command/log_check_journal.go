package command

import (
	"fmt"
	"io"

	"github.com/tidemark-io/tidemark/node"
)

// journaledRecords are records of one segment of a partition in a journal.
type journaledRecords struct {
	Dir     string `json:"dir"` // name of the partition's directory, or empty
	TopicID string `json:"topic_id"`
	Index   int32  `json:"partition"`
	Segment int64  `json:"segment"`
	First   int64  `json:"first_offset"`
	Next    int64  `json:"next_offset"`
	Bytes   int64  `json:"bytes"`
}

// name returns the partition that the records belong to.
func (j journaledRecords) name() string {
	if j.Dir == "" {
		return fmt.Sprintf("partition %d of topic id %s, of which there is no directory", j.Index, j.TopicID)
	}
	return j.Dir
}

// printedPartitions bounds how many partitions of a journal are printed for people.
const printedPartitions = 20

func printJournaled(w io.Writer, all []journaledRecords) {
	for _, j := range all[:min(len(all), printedPartitions)] {
		fmt.Fprintf(w, "  holds of %s: %s", j.name(), size(j.Bytes))
		if j.Next > j.First {
			fmt.Fprintf(w, ", offsets %d to %d", j.First, j.Next-1)
		}
		fmt.Fprintln(w)
	}
	if more := len(all) - printedPartitions; more > 0 {
		fmt.Fprintf(w, "  and %s; --output json names them\n", plural(more, "more segment"))
	}
}

// journals reports the journals of a data directory. left says what a start could not restore from them.
func (k *checkRun) journals(data *node.StoppedDir, left []string) {
	for i, found := range data.Journals() {
		result := newSharedFile(found.File)
		result.Journal = []journaledRecords{}
		for _, h := range found.Held {
			result.Bytes += h.Bytes
			result.Journal = append(result.Journal, journaledRecords{h.Dir, h.TopicID, h.Index, h.Segment, h.First, h.Next, h.Bytes})
		}
		last := i+1 == len(data.Journals())
		switch {
		case data.StoppedCleanly():
			result.Notes = append(result.Notes, "the last stop was clean: the logs have all of it, and a start removes it")
		case found.Problem != nil:
			result.Problems = append(result.Problems, fmt.Sprintf("%v; a start restores what precedes the damage. Records acknowledged "+
				"just before the stop may be lost", found.Problem))
		case found.Waits:
			result.Problems = append(result.Problems, "a full or failing disk kept it from being replayed, and its partitions are offline until "+
				"it is: free some space if there is none, and start the server")
		}
		if found.Failed && !data.StoppedCleanly() {
			result.Notes = append(result.Notes, "its partitions failed while the server ran, and nothing else may have these records; a start restores them")
		}
		if last && !data.StoppedCleanly() {
			result.Problems = append(result.Problems, left...)
			files, bytes := data.PutBack()
			if files == 0 {
				result.Notes = append(result.Notes, "the logs have everything in it that can be restored")
			} else {
				result.Notes = append(result.Notes, fmt.Sprintf("the logs lack %s of it, in %s; a start restores that, and the offsets "+
					"shown here include it", size(bytes), plural(files, "segment")))
			}
		}
		k.add(result)
	}
	for _, name := range data.LeftJournals() {
		fmt.Fprintf(k.told, "%s: kept because part of it could not be restored; nothing reads it any more\n", name)
	}
}
