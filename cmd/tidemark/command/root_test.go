package command

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestAMistakeInTheCallIsExitCodeTwoAndSaysWhereToLook(t *testing.T) {
	for call, want := range map[string]string{
		"sevre":                                  `unknown command "sevre" for "tidemark"; did you mean "serve"?`,
		"topic crate x":                          `unknown command "crate" for "tidemark topic"; did you mean "create"?`,
		"zzzzzzzzzz":                             `unknown command "zzzzzzzzzz" for "tidemark"`,
		"topic create":                           "tidemark topic create needs at least one TOPIC",
		"topic list x":                           `tidemark topic list takes no argument, got "x"`,
		"topic list --bogus":                     "unknown flag: --bogus",
		"topic list --output xml":                `--output is text or json, not "xml"`,
		"topic create a --config x":              `--config wants NAME=VALUE, got "x"`,
		"topic alter a":                          "nothing to change: give --config, --unset or --partitions",
		"topic alter a --config x=1 --unset x":   "x is both in --config and in --unset",
		"topic describe a --config=some":         `--config is own or all, not "some"`,
		"topic delete-records a":                 "tidemark topic delete-records needs --before",
		"consume":                                "tidemark consume needs TOPIC",
		"consume a b":                            `tidemark consume takes only TOPIC, got "b" as well`,
		"consume a --from yesterday":             `--from cannot be "yesterday": it is start or earliest, end or latest, an offset`,
		"consume a -e --until 5":                 "--until and --until-end exclude each other",
		"consume a -f %y":                        `--format cannot be "%y": %y is not known`,
		"consume a -f %s --keys":                 "--format says everything: leave out --keys and --headers",
		"produce a --acks 2":                     `--acks is all, 1 or 0, not "2"`,
		"produce a --compression rar":            `--compression is none, gzip, snappy, lz4 or zstd, not "rar"`,
		"produce a --header x":                   `--header wants NAME=VALUE, got "x"`,
		"produce a --tombstone":                  "--tombstone goes with --key",
		"produce a --input xml":                  `--input is lines or json, not "xml"`,
		"produce a --delimiter \\q":              `--delimiter cannot be "\\q"`,
		"group reset-offsets g":                  "tidemark group reset-offsets needs either --to or --by",
		"group reset-offsets g --by x":           `--by is a number such as +10 or -10, not "x"`,
		"group reset-offsets g --to 1 -t a:b":    `--topic wants TOPIC or TOPIC:PARTITION,..., got "a:b"`,
		"demo --records 0":                       "--records is at least 1, not 0",
		"bench produce --size 1":                 "--size is at least 8, not 1",
		"bench e2e --rate 0":                     "--rate must be more than 0",
		"completion tcsh":                        `no completion for "tcsh"`,
		"config --num.partitions 0":              `num.partitions is "0": expected at least 1`,
		"config --queued.max.request.bytes 1":    "expected at least twice socket.request.max.bytes",
		"config --topic-default retention.mss=1": "Unknown topic config name: retention.mss (did you mean retention.ms?)",
		"serve --kafka-lisen :1":                 "unknown flag: --kafka-lisen; did you mean --kafka-listen?",
		"log dump":                               "tidemark log dump needs PATH",
		"topic list --bootstrap-server a:1":      "unknown flag: --bootstrap-server; it is --server here",
		"consume a --max-messages 3":             "unknown flag: --max-messages; it is --max here",
		"topic create a --partitions many":       `--partitions is a number, not "many"`,
		"topic create a -p 99999999999":          "--partitions cannot be 99999999999: it is out of range",
		"consume a --keys=some":                  `--keys is true or false, not "some"`,
	} {
		t.Run(call, func(t *testing.T) {
			got := tidemark(t, "", strings.Fields(call)...)
			require.Equal(t, ExitUsage, got.Code)
			require.Empty(t, got.Out)
			require.Contains(t, got.Err, want)
			require.NotContains(t, got.Err, "tidemark: tidemark")
			require.Contains(t, got.Err, "--help' for usage.")
		})
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	root := newRoot(Streams{})
	commands := []*cobra.Command{root}
	for len(commands) > 0 {
		c := commands[0]
		commands = append(commands[1:], c.Commands()...)
		if c.Hidden {
			continue
		}
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotContains(t, c.Short, "\n", c.CommandPath())
		require.NotEmpty(t, c.Example, c.CommandPath())
	}
	help := done(t, "", "--help")
	require.Contains(t, help, "A server:")
	require.NotContains(t, help, "Additional Commands")
	require.Less(t, strings.Count(help, "\n"), 48, "short enough for one screen")
}

func TestAnUnknownKeyNamesTheNearestOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.yaml")
	require.NoError(t, os.WriteFile(file, []byte("num.partitons: 3\ntopic-patterns:\n  - {pattern: '[', retention.ms: 1}\n"), 0o600))
	got := tidemark(t, "", "serve", "--config", file)
	require.Equal(t, ExitUsage, got.Code)
	require.Contains(t, got.Err, "unknown key num.partitons (did you mean num.partitions?)")

	t.Setenv("TIDEMARK_NODE_IDD", "4")
	got = tidemark(t, "", "config")
	require.Equal(t, ExitUsage, got.Code)
	require.Contains(t, got.Err, "unknown key TIDEMARK_NODE_IDD (did you mean TIDEMARK_NODE_ID?)")
}

func TestPatternsOfTopicNamesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"topic-patterns:\n  - {pattern: '[', retention.ms: 1}\n":  `topic-patterns: pattern "["`,
		"topic-patterns:\n  - {pattern: 'a*', retention.m: 1}\n":  `topic-patterns: pattern "a*"`,
		"topic-patterns:\n  - {pattern: 'a*', retention.ms: x}\n": `topic-patterns: pattern "a*"`,
	} {
		file := filepath.Join(t.TempDir(), "t.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		got := tidemark(t, "", "config", "--config", file)
		require.Equal(t, ExitUsage, got.Code)
		require.Contains(t, got.Err, want)
	}
}

func TestAServerThatIsNotThereIsSaidInWords(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	require.NoError(t, l.Close())
	for _, args := range [][]string{
		{"topic", "list"}, {"topic", "describe", "a"}, {"topic", "create", "a"}, {"consume", "a"}, {"produce", "a"},
		{"group", "list"}, {"group", "lag"}, {"cluster"}, {"bench", "produce", "-n", "1"},
	} {
		got := tidemark(t, "", append(args, "--server", nobody)...)
		require.Equal(t, ExitFailed, got.Code, "%v", args)
		require.Contains(t, got.Err, "nothing listens at "+nobody+"; start a server with 'tidemark serve', or name another with --server")
	}
}

func TestVersionSaysWhatThisIs(t *testing.T) {
	require.Contains(t, done(t, "", "version"), "tidemark "+version)
	require.Contains(t, done(t, "", "version", "--output", "json"), `"version": "`+version+`"`)
}

func TestCompletionScriptsAreMadeForEveryShell(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_tidemark", "zsh": "#compdef tidemark", "fish": "complete -c tidemark",
		"powershell": "Register-ArgumentCompleter",
	} {
		require.Contains(t, done(t, "", "completion", shell), want, shell)
	}
}

func TestTheReferenceIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	require.Equal(t, string(page), done(t, "", "reference"), "run: go run ./cmd/tidemark reference > docs/cli.md")
}

func TestAnUnreachableServerIsNamedWithItsPort(t *testing.T) {
	f := clientFlags{servers: []string{"a", "b:1", "::1", "[::1]", "[::1]:2"}}
	require.Equal(t, []string{"a:9092", "b:1", "[::1]:9092", "[::1]:9092", "[::1]:2"}, f.addresses())
}
