package logdir

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Java properties text, as far as a machine writes it:
//
//	# comment, also with !
//	key=value          ':' and white space part them too
//	key=a \            a backslash at the end joins lines and drops the next one's leading space
//	    long value
//	key=\u00e9\t\\     escapes; bytes above 0x7f are ISO 8859-1

// ParseProperties reads Java properties text, such as a server.properties of Kafka. Of two equal keys the later counts.
func ParseProperties(data []byte) (map[string]string, error) { return parseProperties(data) }

// parseProperties reads properties text. Of two equal keys the later counts.
func parseProperties(data []byte) (map[string]string, error) {
	props := map[string]string{}
	lines := strings.FieldsFunc(latin1(data), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for endsInEscape(line) {
			line = line[:len(line)-1]
			if i++; i == len(lines) {
				break
			}
			line += strings.TrimLeft(lines[i], " \t\f")
		}
		rawKey, rawValue := splitProperty(line)
		key, err := unescape(rawKey)
		if err != nil {
			return nil, err
		}
		if props[key], err = unescape(rawValue); err != nil {
			return nil, err
		}
	}
	return props, nil
}

func latin1(data []byte) string {
	runes := make([]rune, len(data))
	for i, b := range data {
		runes[i] = rune(b)
	}
	return string(runes)
}

// endsInEscape reports whether a line ends with an odd number of backslashes.
func endsInEscape(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// splitProperty parts a line at the first separator that is not escaped.
func splitProperty(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
	}
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return line[:end], value
}

// unescape reads the escapes. Each is one UTF-16 unit, so that two of them may make one character.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	in := []rune(s)
	var units []uint16
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' || i+1 == len(in) {
			units = utf16.AppendRune(units, in[i])
			continue
		}
		i++
		switch in[i] {
		case 'n':
			units = append(units, '\n')
		case 'r':
			units = append(units, '\r')
		case 't':
			units = append(units, '\t')
		case 'f':
			units = append(units, '\f')
		case 'u':
			digits := string(in[i+1 : min(len(in), i+5)])
			unit, err := strconv.ParseUint(digits, 16, 16)
			if err != nil || len(digits) < 4 {
				return "", fmt.Errorf(`\u%s is not an escape: want four hexadecimal digits`, digits)
			}
			units = append(units, uint16(unit))
			i += 4
		default:
			units = utf16.AppendRune(units, in[i])
		}
	}
	return string(utf16.Decode(units)), nil
}

// formatProperties writes properties text, one line a key in the order of the keys.
func formatProperties(props map[string]string) []byte {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(props)) {
		b.WriteString(escaped(key, " "))
		b.WriteByte('=')
		value := props[key]
		if strings.HasPrefix(value, " ") {
			b.WriteByte('\\')
		}
		b.WriteString(escaped(value, ""))
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// escaped writes what Java would misread, and the characters in also, with a backslash.
func escaped(s, also string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		switch {
		case unit == '\n':
			b.WriteString(`\n`)
		case unit == '\r':
			b.WriteString(`\r`)
		case unit == '\t':
			b.WriteString(`\t`)
		case unit == '\f':
			b.WriteString(`\f`)
		case unit < 0x20 || unit > 0x7e:
			fmt.Fprintf(&b, `\u%04X`, unit)
		case strings.ContainsRune(`\=:#!`+also, rune(unit)):
			b.WriteByte('\\')
			b.WriteByte(byte(unit))
		default:
			b.WriteByte(byte(unit))
		}
	}
	return b.String()
}
