package topicconfig

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// bounds is a range of integers with the text that describes it.
type bounds struct {
	min, max int64
	also     int64 // a valid value outside of the range
	hasAlso  bool
	text     string
}

func (b bounds) check(v int64) error {
	if b.hasAlso {
		if v == b.also || v >= b.min && v <= b.max {
			return nil
		}
		return fmt.Errorf("value must be between %d and %d or equal to %d", b.min, b.max, b.also)
	}
	if v < b.min {
		return fmt.Errorf("value must be at least %d", b.min)
	}
	if v > b.max {
		return fmt.Errorf("value must be no more than %d", b.max)
	}
	return nil
}

func anyNumber() bounds { return bounds{min: math.MinInt64, max: math.MaxInt64} }

func atLeast(n int64) bounds {
	return bounds{min: n, max: math.MaxInt64, text: fmt.Sprintf("[%d,...]", n)}
}

func between(lo, hi int64) bounds {
	return bounds{min: lo, max: hi, text: fmt.Sprintf("[%d,...,%d]", lo, hi)}
}

func betweenOr(lo, hi, also int64) bounds {
	return bounds{min: lo, max: hi, also: also, hasAlso: true, text: fmt.Sprintf("[%d,...,%d] or %d", lo, hi, also)}
}

func longSetting(name string, field func(*Config) *int64, def int64, in bounds, doc string) setting {
	return setting{
		Definition: Definition{Name: name, Type: Long, Default: strconv.FormatInt(def, 10), Range: in.text, Doc: doc},
		parse: func(c *Config, text string) error {
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("not a number of type LONG")
			}
			*field(c) = v
			return in.check(v)
		},
		render: func(c *Config) string { return strconv.FormatInt(*field(c), 10) },
	}
}

func intSetting(name string, field func(*Config) *int32, def int32, in bounds, doc string) setting {
	return setting{
		Definition: Definition{Name: name, Type: Int, Default: strconv.Itoa(int(def)), Range: in.text, Doc: doc},
		parse: func(c *Config, text string) error {
			v, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return fmt.Errorf("not a number of type INT")
			}
			*field(c) = int32(v)
			return in.check(v)
		},
		render: func(c *Config) string { return strconv.FormatInt(int64(*field(c)), 10) },
	}
}

func boolSetting(name string, field func(*Config) *bool, def bool, doc string) setting {
	return setting{
		Definition: Definition{Name: name, Type: Boolean, Default: strconv.FormatBool(def), Doc: doc},
		parse: func(c *Config, text string) error {
			switch strings.ToLower(text) {
			case "true":
				*field(c) = true
			case "false":
				*field(c) = false
			default:
				return fmt.Errorf("expected value to be either true or false")
			}
			return nil
		},
		render: func(c *Config) string { return strconv.FormatBool(*field(c)) },
	}
}

// ratioSetting is a DOUBLE from 0 to 1.
func ratioSetting(name string, field func(*Config) *float64, def float64, doc string) setting {
	return setting{
		Definition: Definition{Name: name, Type: Double, Default: renderDouble(def), Range: "[0,...,1]", Doc: doc},
		parse: func(c *Config, text string) error {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return fmt.Errorf("not a number of type DOUBLE")
			}
			if !(v >= 0 && v <= 1) { // NaN fails too; Kafka lets it through
				return fmt.Errorf("value must be between 0 and 1")
			}
			*field(c) = v
			return nil
		},
		render: func(c *Config) string { return renderDouble(*field(c)) },
	}
}

// choiceSetting is a STRING that is one of a few words, exactly as written.
func choiceSetting[T ~string](name string, field func(*Config) *T, def T, words []T, doc string) setting {
	return setting{
		Definition: Definition{Name: name, Type: String, Default: string(def), Range: "[" + joinWords(words) + "]", Doc: doc},
		parse: func(c *Config, text string) error {
			for _, w := range words {
				if string(w) == text {
					*field(c) = w
					return nil
				}
			}
			return fmt.Errorf("string must be one of: %s", joinWords(words))
		},
		render: func(c *Config) string { return string(*field(c)) },
	}
}

func joinWords[T ~string](words []T) string {
	plain := make([]string, len(words))
	for i, w := range words {
		plain[i] = string(w)
	}
	return strings.Join(plain, ", ")
}

// splitList splits a LIST at its commas and trims blanks. The empty text is the empty list.
func splitList(text string) []string {
	if text == "" {
		return nil
	}
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return items
}

// renderDouble writes a number as Java's Double.toString does: always with a fraction, and with an exponent below
// 1.0E-3 and from 1.0E7 on.
func renderDouble(v float64) string {
	abs := math.Abs(v)
	if abs == 0 || abs >= 1e-3 && abs < 1e7 {
		s := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}
