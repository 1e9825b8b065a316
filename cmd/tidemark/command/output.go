package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// outputFlag is the --output flag: text for people, json for programs.
type outputFlag struct {
	format string
}

func addOutputFlag(c *cobra.Command) *outputFlag {
	f := &outputFlag{}
	addWordFlag(c, &f.format, "output", "o", "print for people or for programs", "text", "json")
	return f
}

// json reports whether JSON is requested; any other word than text and json is a usage error.
func (f *outputFlag) json(c *cobra.Command) (bool, error) {
	switch f.format {
	case "text":
		return false, nil
	case "json":
		return true, nil
	}
	return false, usagef(c, "--output is text or json, not %q", f.format)
}

// writeJSON writes v as one indented document.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows in aligned columns under a header. The caller calls flush once.
type table struct {
	w *tabwriter.Writer
}

func newTable(w io.Writer, header ...string) *table {
	t := &table{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(header, "\t"))
	return t
}

func (t *table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, cell)
	}
	fmt.Fprintln(t.w)
}

func (t *table) flush() error {
	return t.w.Flush()
}

// executeHelp is the help of --execute, and nothingChanged the last line of a command that changed nothing without it.
const (
	executeHelp    = "do it; without this flag nothing changes"
	nothingChanged = "nothing was changed; add --execute to do it"
)

// dryRunNote says on standard error, after a table, that nothing was done.
func dryRunNote(c *cobra.Command, executed bool, what string) error {
	if executed {
		return nil
	}
	_, err := fmt.Fprintf(c.ErrOrStderr(), "nothing was %s; add --execute to do it\n", what)
	return err
}

// action is what a command did to one thing.
type action struct {
	Name string `json:"name"`
	Done string `json:"done"`
	text string // for people
}

// reportActions prints what was done, even when something else failed.
func reportActions(c *cobra.Command, actions []action, asJSON bool) error {
	if asJSON {
		if actions == nil {
			actions = []action{}
		}
		return writeJSON(c.OutOrStdout(), actions)
	}
	for _, a := range actions {
		if _, err := fmt.Fprintln(c.OutOrStdout(), a.text); err != nil {
			return err
		}
	}
	return nil
}

// deletion is the action of a deletion.
func deletion(name string) action {
	return action{Name: name, Done: "deleted", text: "deleted " + name}
}

// isTerminal reports whether w is a terminal, where progress bars make sense.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// plural formats a count with its noun.
func plural[N ~int | ~int32 | ~int64](n N, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return count(n) + " " + noun + "es"
	}
	return count(n) + " " + noun + "s"
}

// dash stands for an empty cell.
func dash(text string) string { return cmp.Or(text, "-") }

// offsetText formats an offset, or a dash for a negative one.
func offsetText(offset int64) string {
	if offset < 0 {
		return "-"
	}
	return fmt.Sprint(offset)
}

// count formats n with a comma every three digits.
func count[N ~int | ~int32 | ~int64 | ~uint64](n N) string {
	digits := fmt.Sprintf("%d", n)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// size formats n bytes with a binary unit: 512 B, 1.5 KiB, 20.0 MiB.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < 3 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %s", value, []string{"KiB", "MiB", "GiB", "TiB"}[unit])
}
