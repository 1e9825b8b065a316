package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-io/tidemark/internal/nearest"
)

// Exit codes of the tidemark command. They are stable: scripts rely on them.
const (
	ExitOK     = 0 // done
	ExitFailed = 1 // the command was understood and failed
	ExitUsage  = 2 // unknown command or flag, missing or malformed argument

	ExitWouldChange  = 3 // log repair found something that --apply would repair
	ExitUnrepairable = 4 // log repair found something that it cannot repair
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

// Streams are the standard streams of one run.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Main runs the command line args (without the program's name) and returns the process's exit code. It ends early when
// ctx is done: commands stop cleanly and report what they had done.
func Main(ctx context.Context, args []string, s Streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return ExitFailed
	}
	text := plainError(err)
	if !strings.HasPrefix(text, "tidemark ") { // the name of a command
		text = "tidemark: " + text
	}
	fmt.Fprintln(s.Err, text)
	var own *exitError
	switch {
	case isUsage(err):
		return ExitUsage
	case errors.As(err, &own):
		return own.code
	}
	return ExitFailed
}

// newRoot builds the whole command tree over the given streams.
func newRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "A streaming log server that Kafka clients talk to",
		Long:  "Tidemark is a streaming log server: any Kafka client, one binary, Apache Kafka's own files.",
		Example: `  tidemark demo                          start, fill, read back and verify a throw-away server
  tidemark serve                         run a server on this machine
  tidemark topic create orders -p 12     create a topic
  echo hello | tidemark produce orders   write a record
  tidemark consume orders --until-end    read them all`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Use: "no-help", Hidden: true, GroupID: helpGroup})
	for _, g := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	return root
}

// helpWidth is the width of help texts in columns.
const helpWidth = 120

// helpGroup is the last heading of the help.
const helpGroup = "This binary:"

// commandGroup is a heading of the help and what is under it.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

// commandGroups lists every command.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"A server:", []*cobra.Command{newServe(), newDemo(), newConfig(), newDoctor()}},
		{"Topics, records and groups of a running server:", []*cobra.Command{
			newTopic(), newProduce(), newConsume(), newGroup(), newCluster(), newBench(),
		}},
		{"Files, objects and metadata, offline:", []*cobra.Command{
			newLog(), newObject(), newWAL(), newCheck(), newImport(), newMeta(), newBackup(), newRestore(), newRecover(),
		}},
		{helpGroup, []*cobra.Command{newVersion(), newCompletion(), newReference()}},
	}
}

// usageError is a mistake in how a command was called.
type usageError struct {
	path string // the command, as typed
	text string
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%s\nRun '%s --help' for usage.", e.text, e.path)
}

func usagef(c *cobra.Command, format string, args ...any) error {
	return &usageError{path: c.CommandPath(), text: fmt.Sprintf(format, args...)}
}

func isUsage(err error) bool {
	var u *usageError
	return errors.As(err, &u)
}

// kafkaFlags are flags of Apache Kafka's tools, by our flag for the same.
var kafkaFlags = map[string]string{
	"bootstrap-server": "server", "broker-list": "server", "max-messages": "max", "add-config": "config", "delete-config": "unset",
}

// flagError explains a flag error, and suggests a name for an unknown flag.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	switch {
	case errors.As(err, &unknown):
	case !errors.As(err, &invalid) || !errors.As(err, &number):
		return usagef(c, "%v", err)
	case errors.Is(number, strconv.ErrRange):
		return usagef(c, "--%s cannot be %s: it is out of range", invalid.GetFlag().Name, invalid.GetValue())
	case invalid.GetFlag().Value.Type() == "bool":
		return usagef(c, "--%s is true or false, not %q", invalid.GetFlag().Name, invalid.GetValue())
	default:
		return usagef(c, "--%s is a number, not %q", invalid.GetFlag().Name, invalid.GetValue())
	}
	if ours := kafkaFlags[unknown.GetSpecifiedName()]; c.Flags().Lookup(ours) != nil {
		return usagef(c, "%v; it is --%s here", err, ours)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest.Name(unknown.GetSpecifiedName(), names); near != "" {
		return usagef(c, "%v; did you mean --%s?", err, near)
	}
	return usagef(c, "%v", err)
}

// noArguments refuses arguments. On a command with subcommands the first one counts as an unknown subcommand, and the
// nearest name is suggested.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasSubCommands() {
		return usagef(c, "%s takes no argument, got %q", c.CommandPath(), args[0])
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], c.CommandPath())
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2 // edits; cobra sets its default only in its own message
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usagef(c, "%s", text)
}

// exactly requires one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		want := strings.Join(names, " ")
		if len(args) < len(names) {
			return usagef(c, "%s needs %s", c.CommandPath(), want)
		}
		return usagef(c, "%s takes only %s, got %q as well", c.CommandPath(), want, args[len(names)])
	}
}

// atLeastOne requires one or more arguments of the named kind.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef(c, "%s needs at least one %s", c.CommandPath(), name)
		}
		return nil
	}
}
