package logdir

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of names, in bytes.
const (
	// MaxTopicName is the longest topic name that Kafka allows.
	MaxTopicName = 249
	// MaxDirName is the longest name that file systems allow.
	MaxDirName = 255
)

// Partition names one partition of a topic.
type Partition struct {
	Topic string
	Index int32
}

// String returns the directory name, "orders-3", without a check.
func (p Partition) String() string { return p.Topic + "-" + strconv.Itoa(int(p.Index)) }

// Check returns an error if p cannot be the name of a partition: the topic is empty, longer than [MaxTopicName], "." or
// "..", or has other characters than letters, digits, '.', '_' and '-'; or the index is negative.
func (p Partition) Check() error {
	if err := checkTopic(p.Topic); err != nil {
		return err
	}
	if p.Index < 0 {
		return fmt.Errorf("partition %d of topic %s is negative", p.Index, p.Topic)
	}
	return nil
}

func checkTopic(topic string) error {
	switch {
	case topic == "" || topic == "." || topic == "..":
		return fmt.Errorf("%q is not a topic name", topic)
	case len(topic) > MaxTopicName:
		return fmt.Errorf("topic name %s is %d characters long; the limit is %d", topic, len(topic), MaxTopicName)
	}
	for _, r := range topic {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		default:
			return fmt.Errorf("topic name %q has the character %q; letters, digits, '.', '_' and '-' are allowed", topic, r)
		}
	}
	return nil
}

// Role is the purpose of a partition's directory.
type Role int

const (
	// Current is the log of a partition of this node.
	Current Role = iota
	// Delete is a log that was deleted and waits for its removal.
	Delete
	// Future is a log that is being moved here from another data directory.
	Future
	// Stray is a log that no longer belongs to this node. Its owner decides what happens to it.
	Stray
)

// suffix is the ending of a role's names.
func (r Role) suffix() string {
	switch r {
	case Delete:
		return "-delete"
	case Future:
		return "-future"
	case Stray:
		return "-stray"
	}
	return ""
}

// String returns the role in one word.
func (r Role) String() string {
	if r == Current {
		return "current"
	}
	return strings.TrimPrefix(r.suffix(), "-")
}

// DirName is the name of a partition's directory in parts.
//
//	orders-3                                           Current
//	orders-3.5f0c6d1e2b3a49788c9d0e1f2a3b4c5d-delete   Delete; -future and -stray alike
//	└──┬───┘ └──────────────┬───────────────┘
//	topic-partition         ID
type DirName struct {
	Role Role
	// Partition is whose log it is. The topic of a Delete or Stray name may have been shortened.
	Partition Partition
	// ID makes the name unique: 32 hexadecimal digits in names made here or by Kafka. It is empty for Current, and may be
	// for a Future that another server made.
	ID string
}

// String returns the name. A Delete or Stray name is kept within [MaxDirName] by shortening the topic, as Kafka does.
func (n DirName) String() string {
	if n.Role == Current {
		return n.Partition.String()
	}
	topic := n.Partition.Topic
	rest := "-" + strconv.Itoa(int(n.Partition.Index))
	if n.ID != "" {
		rest += "." + n.ID
	}
	rest += n.Role.suffix()
	if n.Role != Future && len(topic)+len(rest) > MaxDirName {
		topic = topic[:max(0, MaxDirName-len(rest))]
	}
	return topic + rest
}

// check returns an error if the name cannot be used.
func (n DirName) check() error {
	if err := n.Partition.Check(); err != nil {
		return err
	}
	if name := n.String(); len(name) > MaxDirName {
		return fmt.Errorf("directory name %s is %d characters long; the limit is %d", name, len(name), MaxDirName)
	}
	return nil
}

// ParseDirName reads the name of a partition's directory. It also reads "orders-3-future" without an ID, which some
// servers write and Kafka does not.
func ParseDirName(name string) (DirName, error) {
	for _, role := range []Role{Delete, Future, Stray} {
		if rest, ok := strings.CutSuffix(name, role.suffix()); ok {
			return parseMarked(name, rest, role)
		}
	}
	p, err := parsePartition(name)
	return DirName{Partition: p}, err
}

// parseMarked reads what comes before the suffix of a role.
func parseMarked(name, rest string, role Role) (DirName, error) {
	if dot := strings.LastIndexByte(rest, '.'); dot >= 0 && isID(rest[dot+1:]) {
		p, err := parsePartition(rest[:dot])
		if err == nil {
			return DirName{Role: role, Partition: p, ID: rest[dot+1:]}, nil
		}
	}
	if role == Future {
		if p, err := parsePartition(rest); err == nil {
			return DirName{Role: role, Partition: p}, nil
		}
	}
	return DirName{}, fmt.Errorf("directory name %q is not topic-partition.id%s", name, role.suffix())
}

// isID accepts what Kafka accepts: any text without white space.
func isID(s string) bool { return s != "" && !strings.ContainsFunc(s, isSpace) }

func isSpace(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r", r) }

func parsePartition(name string) (Partition, error) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return Partition{}, fmt.Errorf("directory name %q is not topic-partition", name)
	}
	index, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || strconv.FormatInt(index, 10) != name[dash+1:] {
		return Partition{}, fmt.Errorf("directory name %q does not end with the number of a partition", name)
	}
	p := Partition{Topic: name[:dash], Index: int32(index)}
	if err := p.Check(); err != nil {
		return Partition{}, fmt.Errorf("directory name %q: %w", name, err)
	}
	return p, nil
}
