package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/kafkalog"
)

// repairTransaction is a [kafkalog.RepairTransaction] in JSON.
type repairTransaction struct {
	End              string `json:"end"`
	ProducerID       int64  `json:"producer_id"`
	ProducerEpoch    int16  `json:"producer_epoch"`
	CoordinatorEpoch int32  `json:"coordinator_epoch"` // -1 if not known
	First            int64  `json:"first_offset"`
	Marker           int64  `json:"marker_offset"` // -1 if there is none
	Commit           bool   `json:"commit"`        // according to the marker
	Lost             bool   `json:"end_may_be_lost"`
	Reason           string `json:"reason"`
}

func newRepairTransaction(t kafkalog.RepairTransaction) repairTransaction {
	return repairTransaction{
		string(t.End), t.ProducerID, t.ProducerEpoch, t.CoordinatorEpoch, t.First, t.Marker, t.Commit, t.Lost, t.Reason,
	}
}

// print shows the transaction; done says that the log was repaired.
func (t repairTransaction) print(w io.Writer, done bool) {
	whose := fmt.Sprintf("the transaction of producer %d, epoch %d, that begins at offset %d", t.ProducerID, t.ProducerEpoch, t.First)
	switch kafkalog.TransactionEnd(t.End) {
	case kafkalog.PutBackEnd:
		kind := "abort"
		if t.Commit {
			kind = "commit"
		}
		fmt.Fprintf(w, "  put back: the %s marker at offset %d of %s, known %s\n", kind, t.Marker, whose, t.Reason)
	case kafkalog.AbortAtEnd:
		fmt.Fprintf(w, "  abort: %s, with a marker at offset %d\n", whose, t.Marker)
	default:
		fmt.Fprintf(w, "  open: %s; read_committed consumers wait there until it ends\n", whose)
		if t.Lost {
			fmt.Fprint(w, "    its end may have been among the lost offsets, and nothing shows whether it was committed;")
		} else {
			fmt.Fprint(w, "    nothing is lost after it: its producer may continue it, if the cluster still runs;")
		}
		again := ""
		if done {
			again = " in another repair"
		}
		fmt.Fprintf(w, " --abort %d ends it%s\n", t.ProducerID, again)
	}
}

// abortChoice is the set of producers whose open transactions are to be aborted.
type abortChoice struct {
	all bool
	ids map[int64]bool // true once an open transaction was found
}

// has reports whether a producer with an open transaction was chosen.
func (a *abortChoice) has(id int64) bool {
	if _, named := a.ids[id]; named {
		a.ids[id] = true
		return true
	}
	return a.all
}

// tellUnknown names the chosen producers without an open transaction.
func (a *abortChoice) tellUnknown(w io.Writer) {
	for _, id := range slices.Sorted(maps.Keys(a.ids)) {
		if !a.ids[id] {
			fmt.Fprintf(w, "producer %d has no open transaction\n", id)
		}
	}
}

// producersToAbort parses the flag --abort.
func producersToAbort(c *cobra.Command, words []string) (*abortChoice, error) {
	choice := &abortChoice{ids: map[int64]bool{}}
	for _, word := range words {
		if word == "all" {
			choice.all = true
			continue
		}
		id, err := strconv.ParseInt(word, 10, 64)
		if err != nil || id < 0 {
			return nil, usagef(c, "--abort is all, or the ids of producers, not %q", word)
		}
		choice.ids[id] = false
	}
	return choice, nil
}
