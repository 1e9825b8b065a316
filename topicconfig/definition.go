package topicconfig

import (
	"slices"
	"strings"
)

// Type is the type of a setting's value. The numbers are those of Kafka's DescribeConfigs response.
type Type uint8

// The value types of Kafka's protocol. No topic setting is a SHORT, CLASS or PASSWORD.
const (
	Boolean Type = 1
	String  Type = 2
	Int     Type = 3
	Long    Type = 5
	Double  Type = 6
	List    Type = 7
)

// String returns Kafka's name of the type, such as BOOLEAN.
func (t Type) String() string {
	switch t {
	case Boolean:
		return "BOOLEAN"
	case String:
		return "STRING"
	case Int:
		return "INT"
	case Long:
		return "LONG"
	case Double:
		return "DOUBLE"
	case List:
		return "LIST"
	}
	return "UNKNOWN"
}

// Synonym is a broker setting that sets the default of a topic setting.
type Synonym struct {
	// Name is the broker setting's name, such as log.retention.hours.
	Name string
	// Scale is how many units of the topic setting one unit of this setting is: 3600000 for hours against milliseconds, 1
	// where the units are the same.
	Scale int64
}

// Definition describes one topic setting. It is a value; changing it changes nothing else.
type Definition struct {
	// Name is the setting's name in protocols, files and tools.
	Name string
	// Type is the type of its value.
	Type Type
	// Default is its default as [Config.Value] renders it.
	Default string
	// Range describes valid values, in Kafka's notation ("[0,...]", "[compact, delete]"), or is "" when the type alone
	// decides.
	Range string
	// NeedsReopen says that an open log keeps the old value until it is closed and opened again.
	NeedsReopen bool
	// Synonyms are the broker settings that set the default, strongest first. The last one carries Kafka's default. It is
	// empty for a setting that only a topic has.
	Synonyms []Synonym
	// Doc says what the setting does, in a sentence or two.
	Doc string
}

// Definitions returns every setting, in the order of their names. The caller owns the slice.
func Definitions() []Definition {
	out := make([]Definition, len(table))
	for i := range table {
		out[i] = table[i].definition()
	}
	return out
}

// Lookup returns the setting with the given name.
func Lookup(name string) (Definition, bool) {
	s := find(name)
	if s == nil {
		return Definition{}, false
	}
	return s.definition(), true
}

// setting is a row of the table: a definition and how its value gets into a Config and out again.
type setting struct {
	Definition
	// parse reads text into c. Its error is the reason alone, without name and value.
	parse func(c *Config, text string) error
	// render writes the value as Kafka does.
	render func(c *Config) string
}

func (s *setting) definition() Definition {
	d := s.Definition
	d.Synonyms = slices.Clone(d.Synonyms)
	return d
}

// table is every setting in the order of their names. It is never changed.
var table = sortedTable()

func sortedTable() []setting {
	rows := slices.Concat(retentionSettings(), segmentSettings(), messageSettings(), compactionSettings(),
		replicationSettings(), remoteSettings(), tidemarkSettings())
	slices.SortFunc(rows, func(a, b setting) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

func find(name string) *setting {
	i, ok := slices.BinarySearchFunc(table, name, func(s setting, name string) int { return strings.Compare(s.Name, name) })
	if !ok {
		return nil
	}
	return &table[i]
}
