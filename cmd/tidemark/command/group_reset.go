package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// movedOffset is a row of `group reset-offsets`. Current is -1 without a commit.
type movedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Current   int64  `json:"current"`
	New       int64  `json:"new"`
}

// resetFlags are the flags of `group reset-offsets`.
type resetFlags struct {
	topics  []string
	to      string
	by      string
	execute bool
}

func newGroupReset(client *clientFlags) *cobra.Command {
	var f resetFlags
	c := &cobra.Command{
		Use:   "reset-offsets GROUP",
		Short: "Move the committed offsets of a group",
		Long: `Move the committed offsets of a group to a PLACE, or by a number of offsets. Without --execute nothing changes: the
command shows what it would do. A group with live members is refused, because they would overwrite the new offsets.

Offsets stay within what can be read. Without --topic, the group's offsets in all topics move.

` + placeHelp,
		Example: `  tidemark group reset-offsets billing --to start
  tidemark group reset-offsets billing --to -1h --topic orders --execute
  tidemark group reset-offsets billing --to 4711 --topic orders:0,3 --execute
  tidemark group reset-offsets billing --by -100 --execute`,
		Args:              exactly("GROUP"),
		ValidArgsFunction: onlyFirst(client.completeGroups),
	}
	addTopicsFlag(c, client, &f.topics)
	c.Flags().StringVar(&f.to, "to", "", "move to this `PLACE`")
	c.Flags().StringVar(&f.by, "by", "", "move forward, or backward if negative, by `N` offsets")
	c.Flags().BoolVar(&f.execute, "execute", false, executeHelp)
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		move, err := f.move(c, time.Now())
		if err != nil {
			return err
		}
		topics, err := parseTopics(c, f.topics)
		if err != nil {
			return err
		}
		kc, err := client.connect(c.Context())
		if err != nil {
			return err
		}
		defer kc.Close()
		rows, err := resetOffsets(c.Context(), kc, args[0], topics, move, f.execute)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(c.OutOrStdout(), rows)
		}
		t := newTable(c.OutOrStdout(), "TOPIC", "PARTITION", "CURRENT", "NEW", "MOVES")
		for _, r := range rows {
			t.row(r.Topic, r.Partition, offsetText(r.Current), r.New, r.moves())
		}
		if err := t.flush(); err != nil {
			return err
		}
		return dryRunNote(c, f.execute, "moved")
	}
	return c
}

// moves formats by how much an offset changes.
func (m movedOffset) moves() string {
	if m.Current < 0 {
		return "-"
	}
	return fmt.Sprintf("%+d", m.New-m.Current)
}

// offsetMove is where offsets go: to a place, or by a number from where they are.
type offsetMove struct {
	to       place
	by       int64
	relative bool
}

func (f *resetFlags) move(c *cobra.Command, now time.Time) (offsetMove, error) {
	switch {
	case (f.to == "") == (f.by == ""):
		return offsetMove{}, usagef(c, "%s needs either --to or --by", c.CommandPath())
	case f.to != "":
		to, err := parsePlace(c, "to", f.to, now)
		return offsetMove{to: to}, err
	}
	by, err := strconv.ParseInt(f.by, 10, 64)
	if err != nil {
		return offsetMove{}, usagef(c, "--by is a number such as +10 or -10, not %q", f.by)
	}
	return offsetMove{by: by, relative: true}, nil
}

// addTopicsFlag adds the flag that names topics and partitions of a group, for [parseTopics] to read.
func addTopicsFlag(c *cobra.Command, client *clientFlags, words *[]string) {
	c.Flags().StringArrayVarP(words, "topic", "t", nil, "only this `TOPIC`, or TOPIC:PARTITION,... for some of its partitions; may be repeated")
	_ = c.RegisterFlagCompletionFunc("topic", client.completeTopics) // it fails only for a flag that does not exist
}

// parseTopics parses TOPIC and TOPIC:PARTITION,... A topic without partitions stands for all of them.
func parseTopics(c *cobra.Command, words []string) (map[string][]int32, error) {
	topics := map[string][]int32{}
	for _, word := range words {
		name, numbers, some := strings.Cut(word, ":")
		if name == "" {
			return nil, usagef(c, "--topic wants TOPIC or TOPIC:PARTITION,..., got %q", word)
		}
		if !some {
			topics[name] = nil
			continue
		}
		for number := range strings.SplitSeq(numbers, ",") {
			n, err := strconv.ParseInt(number, 10, 32)
			if err != nil || n < 0 {
				return nil, usagef(c, "--topic wants TOPIC or TOPIC:PARTITION,..., got %q", word)
			}
			topics[name] = append(topics[name], int32(n))
		}
	}
	return topics, nil
}

// resetOffsets finds the new offsets of a group and, with execute, commits them.
func resetOffsets(
	ctx context.Context, kc *kgo.Client, group string, topics map[string][]int32, move offsetMove, execute bool,
) ([]movedOffset, error) {
	admin := kadm.NewClient(kc)
	described, err := describeGroups(ctx, admin, []string{group})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, err
	}
	for _, g := range described {
		if err := refuseLive("move offsets", g); err != nil {
			return nil, err
		}
	}
	committed, err := committedOffsets(ctx, admin, group)
	if err != nil {
		return nil, err
	}
	if len(topics) == 0 {
		for topic, offsets := range committed {
			topics[topic] = slices.Sorted(maps.Keys(offsets))
		}
	}
	if len(topics) == 0 {
		return nil, fmt.Errorf("group %q has committed nothing; name what to move with --topic", group)
	}
	rows := []movedOffset{}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		moved, err := moveInTopic(ctx, kc, topic, topics[topic], committed[topic], move)
		if err != nil {
			return nil, err
		}
		rows = append(rows, moved...)
	}
	if !execute {
		return rows, nil
	}
	return rows, commitMoves(ctx, admin, group, rows)
}

// moveInTopic finds the new offsets in one topic. Moving by a number leaves out partitions without a committed offset.
func moveInTopic(
	ctx context.Context, kc *kgo.Client, topic string, partitions []int32, committed map[int32]int64, move offsetMove,
) ([]movedOffset, error) {
	about, err := topicDetail(ctx, kadm.NewClient(kc), topic)
	if err != nil {
		return nil, err
	}
	partitions, err = chosen(about, partitions)
	if err != nil {
		return nil, err
	}
	readable, err := extents(ctx, kc, topic, partitions, false)
	if err != nil {
		return nil, err
	}
	var targets map[int32]int64
	if !move.relative {
		if targets, err = move.to.resolve(ctx, kc, topic, readable); err != nil {
			return nil, err
		}
	}
	var rows []movedOffset
	for _, p := range slices.Sorted(maps.Keys(readable)) {
		current, has := committed[p]
		if !has {
			current = -1
		}
		target := targets[p]
		if move.relative {
			if !has {
				continue
			}
			target = current + move.by
		}
		e := readable[p]
		rows = append(rows, movedOffset{Topic: topic, Partition: p, Current: current, New: min(max(target, e.Start), e.End)})
	}
	return rows, nil
}

// commitMoves commits new offsets. A group that has got members meanwhile refuses them.
func commitMoves(ctx context.Context, admin *kadm.Client, group string, rows []movedOffset) error {
	offsets := kadm.Offsets{}
	for _, r := range rows {
		offsets.AddOffset(r.Topic, r.Partition, r.New, -1)
	}
	answers, err := admin.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return fmt.Errorf("group %q: %w", group, err)
	}
	var failures []error
	answers.Each(func(r kadm.OffsetResponse) {
		switch {
		case r.Err == nil:
		case errors.Is(r.Err, kerr.UnknownMemberID), errors.Is(r.Err, kerr.NonEmptyGroup), errors.Is(r.Err, kerr.RebalanceInProgress):
			failures = append(failures, fmt.Errorf("%s partition %d: a member joined the group meanwhile: %w", r.Topic, r.Partition, r.Err))
		default:
			failures = append(failures, fmt.Errorf("%s partition %d: %w", r.Topic, r.Partition, r.Err))
		}
	})
	return errors.Join(failures...)
}
