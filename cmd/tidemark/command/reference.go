package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newReference() *cobra.Command {
	return &cobra.Command{
		Use:    "reference",
		Short:  "Print the page docs/cli.md",
		Long:   "Print the reference of all commands as Markdown. It is the page docs/cli.md.",
		Args:   noArguments,
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return writeReference(c.OutOrStdout(), c.Root())
		},
	}
}

// writeReference writes a page about every command that is not hidden.
func writeReference(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString("# The command line\n\n")
	b.WriteString("Made from the commands by `tidemark reference > docs/cli.md`.\n\n")
	b.WriteString("Exit codes: 0 done, 1 failed, 2 called wrongly; those of [`log repair`](#tidemark-log-repair) are more. Errors go to standard error, and what `--output json` writes is stable.\n\n")
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "- %s", g.Title)
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden {
				fmt.Fprintf(&b, " [`%s`](#%s)", c.Name(), anchor(c))
			}
		}
		b.WriteString("\n")
	}
	for _, c := range root.Commands() {
		referTo(&b, c)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func anchor(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// referTo writes a command's section, and then those of its own commands.
func referTo(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
	about := c.Long
	if about == "" {
		about = c.Short + "."
	}
	fmt.Fprintf(b, "%s\n", fenceLists(about))
	if c.Runnable() && !groupsOthers(c) {
		fmt.Fprintf(b, "\n    %s\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n%s\n", indent(c.Example, "  "))
	}
	writeFlags(b, c)
	for _, sub := range c.Commands() {
		referTo(b, sub)
	}
}

// groupsOthers reports whether a command only groups others: it has no flag of its own.
func groupsOthers(c *cobra.Command) bool {
	own := false
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { own = own || f.Name != "help" })
	return c.HasSubCommands() && !own
}

// fenceLists makes blocks of lines that are indented by two code, so that Markdown keeps their lines.
func fenceLists(text string) string {
	var b strings.Builder
	inBlock := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "  ")
		if indented && !inBlock {
			b.WriteString("\n")
		}
		if !indented && inBlock {
			b.WriteString("\n")
		}
		inBlock = indented
		if indented {
			b.WriteString("  ")
		}
		b.WriteString(line)
	}
	return b.String()
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+by)
}

// serveName is the command whose section shows every key of the configuration; others that take them show the common ones.
const serveName = "serve"

// writeFlags writes a command's flags as a table, those of its parents too.
func writeFlags(b *strings.Builder, c *cobra.Command) {
	if groupsOthers(c) {
		return
	}
	first := true
	row := func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden && c.Name() != serveName {
			return
		}
		if first {
			b.WriteString("\n| flag | default | what it does |\n|---|---|---|\n")
			first = false
		}
		kind, doc := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, code(f.DefValue), strings.ReplaceAll(doc, "|", `\|`))
	}
	c.LocalFlags().VisitAll(row)
	c.InheritedFlags().VisitAll(row)
}

func code(text string) string {
	if text == "" || text == "[]" {
		return ""
	}
	return "`" + text + "`"
}
