package topicconfig

import (
	"fmt"
	"strings"

	"github.com/tidemark-io/tidemark/internal/nearest"
)

// UnknownNameError says that there is no topic setting of this name. Protocols answer it with INVALID_CONFIG.
type UnknownNameError struct {
	// Name is the name as given.
	Name string
	// Nearest is the known name most like it, or "" when none is close.
	Nearest string
	// Retired says why a name that Kafka once had is gone, or is "".
	Retired string
}

// Error starts with the words that Kafka uses, since tools look for them.
func (e *UnknownNameError) Error() string {
	msg := "Unknown topic config name: " + e.Name
	switch {
	case e.Retired != "":
		return msg + " (" + e.Retired + ")"
	case e.Nearest != "":
		return msg + " (did you mean " + e.Nearest + "?)"
	}
	return msg
}

// ValueError says that a setting's value is not of its type or not in its range.
type ValueError struct {
	// Name is the setting and Value the text that was given for it.
	Name, Value string
	// Reason says what a value must be.
	Reason string
}

// Error names the setting, the value and the reason.
func (e *ValueError) Error() string {
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", e.Value, e.Name, e.Reason)
}

// ConflictError says that values which are each valid conflict with each other.
type ConflictError struct {
	// Names are the settings involved, the one to change first.
	Names []string
	// Reason states the rule, with the values.
	Reason string
}

// Error is the reason.
func (e *ConflictError) Error() string { return e.Reason }

// InvalidError is what [Parse] and [Config.With] return: every violation that was found, in the order of the settings'
// names, conflicts last. Each is an [*UnknownNameError], a [*ValueError] or a [*ConflictError], and errors.As finds the
// first of its kind.
type InvalidError struct {
	Violations []error
}

// Error joins the violations with semicolons, on one line.
func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		parts[i] = v.Error()
	}
	return strings.Join(parts, "; ")
}

// Unwrap returns the violations.
func (e *InvalidError) Unwrap() []error { return e.Violations }

// retired explains names that once were topic settings of Kafka; automation still sends them.
func retired(name string) string {
	switch name {
	case "message.format.version":
		return "gone since Kafka 4.0: every batch is of format v2"
	case "message.timestamp.difference.max.ms":
		return "gone since Kafka 4.0: use message.timestamp.before.max.ms and message.timestamp.after.max.ms"
	case "message.downconversion.enable":
		return "gone since Kafka 4.0: batches are never converted to an older format"
	}
	return ""
}

func unknownName(name string) *UnknownNameError {
	if why := retired(name); why != "" {
		return &UnknownNameError{Name: name, Retired: why}
	}
	return &UnknownNameError{Name: name, Nearest: nearest.Name(name, names())}
}

// names returns the name of every setting.
func names() []string {
	out := make([]string, len(table))
	for i := range table {
		out[i] = table[i].Name
	}
	return out
}
