package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// unit is a suffix of a number and what it multiplies by.
type unit struct {
	suffix string
	factor int64
}

// sizeUnits are tried in this order, so that MiB is not taken for B.
var sizeUnits = []unit{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// parseSize reads a number of bytes: 1048576, 64MiB, 1.5GB.
func parseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			return scaled(strings.TrimSpace(number), u.factor)
		}
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errors.New("expected a size, such as 1048576, 64MiB or 1GB")
	}
	return v, nil
}

func scaled(number string, factor int64) (int64, error) {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, errors.New("expected a size, such as 1048576, 64MiB or 1GB")
	}
	bytes := v * float64(factor)
	if bytes != math.Trunc(bytes) || math.Abs(bytes) > 1<<53 {
		return 0, errors.New("expected a whole number of bytes, and not more than 8PiB")
	}
	return int64(bytes), nil
}

// renderSize writes bytes with the largest binary unit that divides them.
func renderSize(v int64) string {
	for _, u := range slices.Backward(sizeUnits[:4]) {
		if v != 0 && v%u.factor == 0 {
			return strconv.FormatInt(v/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(v, 10)
}

// maxMs is the most milliseconds that a Duration holds.
const maxMs = math.MaxInt64 / int64(time.Millisecond)

// parseDuration reads plain milliseconds, or Go's notation with d for days added. More milliseconds than a Duration holds,
// such as Kafka's 9223372036854775807, are the longest Duration: forever.
func parseDuration(text string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		if ms > maxMs {
			return math.MaxInt64, nil
		}
		if ms < -maxMs {
			return math.MinInt64, nil
		}
		return time.Duration(ms) * time.Millisecond, nil
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.ParseInt(number, 10, 32); err == nil && days < maxMs/86_400_000 {
			return time.Duration(days) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("expected a duration, such as 10s, 5m, 7d, or a number of milliseconds")
	}
	return d, nil
}

// renderDuration writes a duration so that parseDuration reads it back: 10m rather than 10m0s.
func renderDuration(d time.Duration) string {
	if d == math.MaxInt64 {
		return strconv.Itoa(math.MaxInt64)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// checkAddress accepts HOST:PORT, where the host may be empty for all interfaces and the port 0 for any.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("expected HOST:PORT, such as 127.0.0.1:9092")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || port != strconv.FormatUint(n, 10) {
		return fmt.Errorf("port %q is not a number from 0 to 65535", port)
	}
	return nil
}

// hideInURL replaces the secrets that a URL may carry: the password, and query parameters that sound like one.
func hideInURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	query := u.Query()
	for name := range query {
		if soundsSecret(name) {
			query.Set(name, hidden)
		}
	}
	if len(query) > 0 {
		u.RawQuery = query.Encode()
	}
	return u.String()
}

func soundsSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"secret", "password", "token", "key", "credential", "signature"},
		func(word string) bool { return strings.Contains(name, word) })
}

// hidden stands for a secret.
const hidden = "hidden"
