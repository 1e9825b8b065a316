package config

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Format is how [Loaded.Print] writes.
type Format string

// The formats of [Loaded.Print].
const (
	TextFormat Format = "text" // a table of key, value and source
	JSONFormat Format = "json" // an array of objects with key, value and source
)

// Print writes every value in force with its source. Secrets are hidden.
func (l *Loaded) Print(w io.Writer, format Format) error {
	switch format {
	case JSONFormat:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(l.Values)
	case TextFormat:
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, v := range l.Values {
			shown := v.Value
			if shown == "" {
				shown = "-"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", v.Key, shown, v.Source)
		}
		return t.Flush()
	}
	return fmt.Errorf("config: unknown format %q: expected text or json", format)
}
