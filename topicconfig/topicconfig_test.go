package topicconfig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-io/tidemark/topicconfig"
)

func TestTheTableIsKafkas(t *testing.T) {
	listing, err := os.ReadFile(filepath.Join("testdata", "kafka-4.4.0.txt"))
	require.NoError(t, err)
	var want, got []string
	for line := range strings.Lines(string(listing)) {
		if !strings.HasPrefix(line, "#") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	for _, d := range topicconfig.Definitions() {
		if strings.HasPrefix(d.Name, "tidemark.") {
			continue
		}
		var synonyms []string
		for _, s := range d.Synonyms {
			synonyms = append(synonyms, fmt.Sprintf("%s*%d", s.Name, s.Scale))
		}
		line := strings.Join([]string{d.Name, d.Type.String(), d.Default, d.Range, strings.Join(synonyms, " ")}, " | ")
		got = append(got, strings.TrimSpace(line))
	}
	require.Equal(t, want, got)
}

func TestEveryDefaultParses(t *testing.T) {
	for _, d := range topicconfig.Definitions() {
		c, err := topicconfig.Parse(map[string]string{d.Name: d.Default})
		require.NoError(t, err, d.Name)
		require.Equal(t, d.Default, c.Value(d.Name))
		require.Equal(t, d.Default, topicconfig.Default().Value(d.Name))
		require.NotEmpty(t, d.Doc, d.Name)
		require.Equal(t, map[string]string{d.Name: d.Default}, c.Overrides())
		require.Empty(t, topicconfig.Changed(topicconfig.Default(), c), d.Name)
	}
	require.Equal(t, map[string]string{}, topicconfig.Default().Overrides())
}

// other is a legal value of each setting that is not its default.
func other(d topicconfig.Definition) string {
	switch d.Type {
	case topicconfig.Boolean:
		return "true"
	case topicconfig.Double:
		return "0.25"
	case topicconfig.List:
		if d.Name == "cleanup.policy" {
			return "compact,delete"
		}
		return "0:1,1:2"
	case topicconfig.String:
		return map[string]string{"compression.type": "zstd", "message.timestamp.type": "LogAppendTime", "tidemark.flush": "os"}[d.Name]
	}
	if d.Name == "segment.bytes" {
		return "1048576"
	}
	return "7"
}

func TestEverySettingFillsAFieldOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, d := range topicconfig.Definitions() {
		c, err := topicconfig.Parse(map[string]string{d.Name: other(d)})
		require.NoError(t, err)
		require.Equal(t, other(d), c.Value(d.Name))
		got, want := reflect.ValueOf(c), reflect.ValueOf(topicconfig.Default())
		for i := range got.NumField() {
			field := got.Type().Field(i)
			if field.IsExported() && !reflect.DeepEqual(got.Field(i).Interface(), want.Field(i).Interface()) {
				require.Empty(t, seen[field.Name], "%s is filled twice", field.Name)
				seen[field.Name] = d.Name
			}
		}
		require.Equal(t, []topicconfig.Definition{d}, topicconfig.Changed(topicconfig.Default(), c))
	}
	require.Len(t, seen, len(topicconfig.Definitions()))
	require.Len(t, seen, reflect.TypeFor[topicconfig.Config]().NumField()-1)
}

// verdict is what becomes of one value: how it is rendered, or the reason why not.
type verdict struct{ name, text, rendered, refused string }

func TestValuesAreTakenAsKafkaTakesThem(t *testing.T) {
	for _, v := range []verdict{
		{"cleanup.policy", "", "", ""},
		{"cleanup.policy", "delete, compact", "delete,compact", ""},
		{"cleanup.policy", "compact,compact", "compact", ""},
		{"cleanup.policy", "compact,delete,compact", "compact,delete", ""},
		{"cleanup.policy", "x", "", "string must be one of: compact, delete"},
		{"cleanup.policy", "compact,", "", "string must be one of: compact, delete"},
		{"retention.ms", "abc", "", "not a number of type LONG"},
		{"retention.ms", "", "", "not a number of type LONG"},
		{"retention.ms", "-2", "", "value must be at least -1"},
		{"retention.ms", " 5 ", "5", ""},
		{"retention.ms", "+5", "5", ""},
		{"retention.ms", "9223372036854775808", "", "not a number of type LONG"},
		{"retention.bytes", "-5", "-5", ""},
		{"preallocate", "TRUE", "true", ""},
		{"preallocate", "yes", "", "expected value to be either true or false"},
		{"min.cleanable.dirty.ratio", "1", "1.0", ""},
		{"min.cleanable.dirty.ratio", "0", "0.0", ""},
		{"min.cleanable.dirty.ratio", "0.001", "0.001", ""},
		{"min.cleanable.dirty.ratio", "0.0001", "1.0E-4", ""},
		{"min.cleanable.dirty.ratio", "0.000123456", "1.23456E-4", ""},
		{"min.cleanable.dirty.ratio", "1.5", "", "value must be between 0 and 1"},
		{"min.cleanable.dirty.ratio", "-0.1", "", "value must be between 0 and 1"},
		{"min.cleanable.dirty.ratio", "NaN", "", "value must be between 0 and 1"},
		{"min.cleanable.dirty.ratio", "half", "", "not a number of type DOUBLE"},
		{"compression.gzip.level", "0", "", "value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "10", "", "value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "9", "9", ""},
		{"compression.gzip.level", "-1", "-1", ""},
		{"compression.zstd.level", "-131073", "", "value must be at least -131072"},
		{"compression.zstd.level", "23", "", "value must be no more than 22"},
		{"compression.type", "none", "", "string must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"compression.type", "GZIP", "", "string must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"message.timestamp.type", "createtime", "", "string must be one of: CreateTime, LogAppendTime"},
		{"segment.bytes", "1000", "", "value must be at least 1048576"},
		{"segment.bytes", "2147483648", "", "not a number of type INT"},
		{"max.decompressed.message.bytes", "2147483640", "", "value must be no more than 2147483639"},
		{"leader.replication.throttled.replicas", "1:2, 3:4", "1:2,3:4", ""},
		{"leader.replication.throttled.replicas", "*", "*", ""},
		{"leader.replication.throttled.replicas", "none", "", "must be the literal '*'"},
		{"follower.replication.throttled.replicas", "1:2:3", "", "must be the literal '*'"},
		{"follower.replication.throttled.replicas", "*,1:2", "", "must be the literal '*'"},
		{"follower.replication.throttled.replicas", "0:0,0:0", "0:0,0:0", ""},
		{"min.insync.replicas", "0", "", "value must be at least 1"},
		{"tidemark.flush", "every", "every", ""},
		{"tidemark.flush", "never", "", "string must be one of: group, os, every"},
	} {
		c, err := topicconfig.Parse(map[string]string{v.name: v.text})
		if v.refused == "" {
			require.NoError(t, err)
			require.Equal(t, v.rendered, c.Value(v.name), "%s=%q", v.name, v.text)
			require.Equal(t, map[string]string{v.name: v.text}, c.Overrides(), "text is kept as it was given")
			continue
		}
		var bad *topicconfig.ValueError
		require.ErrorAs(t, err, &bad, "%s=%q", v.name, v.text)
		require.Contains(t, bad.Reason, v.refused)
		require.Equal(t, topicconfig.ValueError{Name: v.name, Value: v.text, Reason: bad.Reason}, *bad)
	}
}

func TestSettingsThatDoNotGoTogetherAreRefused(t *testing.T) {
	for _, c := range []struct {
		settings string
		refused  []string // the settings that each conflict names
	}{
		{"min.compaction.lag.ms=10 max.compaction.lag.ms=10", nil},
		{"min.compaction.lag.ms=10 max.compaction.lag.ms=5", []string{"min.compaction.lag.ms max.compaction.lag.ms"}},
		{"min.compaction.lag.ms=9223372036854775807", nil},
		{"remote.log.copy.disable=true", nil},
		{"remote.storage.enable=true", nil},
		{"remote.storage.enable=true cleanup.policy=", nil},
		{"remote.storage.enable=true cleanup.policy=compact", []string{"cleanup.policy remote.storage.enable"}},
		{"remote.storage.enable=true cleanup.policy=delete,compact", []string{"cleanup.policy remote.storage.enable"}},
		{"local.retention.ms=900 retention.ms=800", nil},
		{"remote.storage.enable=true local.retention.ms=900 retention.ms=800", []string{"local.retention.ms retention.ms"}},
		{"remote.storage.enable=true local.retention.ms=-1 retention.ms=800", []string{"local.retention.ms retention.ms"}},
		{"remote.storage.enable=true local.retention.ms=-1 retention.ms=-1", nil},
		{"remote.storage.enable=true local.retention.ms=5 retention.ms=-1", nil},
		{"remote.storage.enable=true local.retention.bytes=900 retention.bytes=800", []string{"local.retention.bytes retention.bytes"}},
		{"remote.storage.enable=true local.retention.bytes=-1 retention.bytes=800", []string{"local.retention.bytes retention.bytes"}},
		{"remote.storage.enable=true local.retention.bytes=5", nil},
		{"remote.storage.enable=true remote.log.copy.disable=true", nil},
		{"remote.storage.enable=true remote.log.copy.disable=true local.retention.ms=100", []string{"local.retention.ms retention.ms"}},
		{"remote.storage.enable=true remote.log.copy.disable=true local.retention.ms=604800000", nil},
		{"remote.storage.enable=true remote.log.copy.disable=true local.retention.bytes=100", []string{"local.retention.bytes retention.bytes"}},
		{"remote.copy.lag.ms=999999999999", nil},
		{"remote.storage.enable=true remote.copy.lag.ms=999999999999", []string{"remote.copy.lag.ms local.retention.ms"}},
		{"remote.storage.enable=true remote.copy.lag.ms=800 local.retention.ms=700", []string{"remote.copy.lag.ms local.retention.ms"}},
		{"remote.storage.enable=true remote.copy.lag.ms=-1 local.retention.ms=700", nil},
		{"remote.storage.enable=true remote.copy.lag.bytes=6 local.retention.bytes=5", []string{"remote.copy.lag.bytes local.retention.bytes"}},
		{"segment.jitter.ms=900 segment.ms=800", nil},
		{"max.message.bytes=900000000 segment.bytes=1048576", nil},
	} {
		settings := map[string]string{}
		for _, pair := range strings.Fields(c.settings) {
			name, value, _ := strings.Cut(pair, "=")
			settings[name] = value
		}
		_, err := topicconfig.Parse(settings)
		if c.refused == nil {
			require.NoError(t, err, c.settings)
			continue
		}
		var invalid *topicconfig.InvalidError
		require.ErrorAs(t, err, &invalid, c.settings)
		var names []string
		for _, v := range invalid.Violations {
			var conflict *topicconfig.ConflictError
			require.ErrorAs(t, v, &conflict)
			names = append(names, strings.Join(conflict.Names, " "))
		}
		require.Equal(t, c.refused, names, c.settings)
	}
}

func TestAnUnknownNameComesWithTheNearestOne(t *testing.T) {
	for name, want := range map[string]topicconfig.UnknownNameError{
		"retention.sm":           {Name: "retention.sm", Nearest: "retention.ms"},
		"cleanup-policy":         {Name: "cleanup-policy", Nearest: "cleanup.policy"},
		"tidemark.flsh":          {Name: "tidemark.flsh", Nearest: "tidemark.flush"},
		"Retention.ms":           {Name: "Retention.ms", Nearest: "retention.ms"},
		"xyz":                    {Name: "xyz"},
		"":                       {Name: ""},
		"internal.segment.bytes": {Name: "internal.segment.bytes"},
		"message.format.version": {Name: "message.format.version", Retired: "gone since Kafka 4.0: every batch is of format v2"},
		"message.downconversion.enable": {Name: "message.downconversion.enable",
			Retired: "gone since Kafka 4.0: batches are never converted to an older format"},
	} {
		_, err := topicconfig.Parse(map[string]string{name: "1"})
		var unknown *topicconfig.UnknownNameError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, want, *unknown)
		require.True(t, strings.HasPrefix(err.Error(), "Unknown topic config name: "+name), err.Error())
		_, known := topicconfig.Lookup(name)
		require.False(t, known)
		require.Empty(t, topicconfig.Default().Value(name))
	}
}

func TestAllViolationsAreReportedTogetherInTheOrderOfTheirNames(t *testing.T) {
	_, err := topicconfig.Parse(map[string]string{"segment.bytes": "1", "nope": "2", "flush.ms": "-1", "retention.bytes": "10"})
	require.EqualError(t, err, "Invalid value -1 for configuration flush.ms: value must be at least 0; "+
		"Unknown topic config name: nope; "+
		"Invalid value 1 for configuration segment.bytes: value must be at least 1048576")
	var invalid *topicconfig.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Violations, 3)
}

func TestTheServersDefaultsLieUnderTheTopicsOwnSettings(t *testing.T) {
	server, err := topicconfig.Parse(map[string]string{"retention.ms": "1000", "tidemark.flush": "os", "min.compaction.lag.ms": "50"})
	require.NoError(t, err)
	own := map[string]string{"retention.ms": "2000"}
	topic, err := server.With(own)
	require.NoError(t, err)
	require.Equal(t, int64(2000), topic.RetentionMs)
	require.Equal(t, topicconfig.FlushOS, topic.Flush)
	require.Equal(t, map[string]string{"retention.ms": "2000"}, topic.Overrides())
	require.True(t, topic.Overridden("retention.ms"))
	require.False(t, topic.Overridden("tidemark.flush"))

	own["retention.ms"] = "changed by the caller"
	topic.Overrides()["retention.ms"] = "changed by the caller"
	require.Equal(t, map[string]string{"retention.ms": "2000"}, topic.Overrides())

	_, err = server.With(map[string]string{"max.compaction.lag.ms": "40"})
	var conflict *topicconfig.ConflictError
	require.ErrorAs(t, err, &conflict, "a topic's own setting may conflict with the server's default")
}

func TestConfigsAreEqualWhenValuesAndOverridesAre(t *testing.T) {
	parse := func(settings map[string]string) topicconfig.Config {
		c, err := topicconfig.Parse(settings)
		require.NoError(t, err)
		return c
	}
	a := parse(map[string]string{"leader.replication.throttled.replicas": "1:2"})
	require.True(t, a.Equal(parse(map[string]string{"leader.replication.throttled.replicas": "1:2"})))
	require.False(t, a.Equal(parse(map[string]string{"leader.replication.throttled.replicas": "1:3"})))
	require.False(t, parse(map[string]string{"preallocate": "false"}).Equal(topicconfig.Default()))
	require.True(t, topicconfig.Default().Equal(parse(nil)))
}

func TestCleanupPoliciesSayWhatTheyDo(t *testing.T) {
	for text, want := range map[string][2]bool{"": {}, "delete": {true, false}, "compact": {false, true},
		"delete,compact": {true, true}, "compact,delete": {true, true}} {
		c, err := topicconfig.Parse(map[string]string{"cleanup.policy": text})
		require.NoError(t, err)
		require.Equal(t, want, [2]bool{c.CleanupPolicy.Deletes(), c.CleanupPolicy.Compacts()}, text)
	}
}

func TestOnlyRemoteStorageNeedsAReopen(t *testing.T) {
	var reopen []string
	for _, d := range topicconfig.Definitions() {
		if d.NeedsReopen {
			reopen = append(reopen, d.Name)
		}
	}
	require.Equal(t, []string{"remote.storage.enable"}, reopen)
}

func TestDefinitionsAreTheCallersOwn(t *testing.T) {
	d, ok := topicconfig.Lookup("retention.ms")
	require.True(t, ok)
	d.Synonyms[0].Name = "changed by the caller"
	topicconfig.Definitions()[0].Name = "changed by the caller"
	again, _ := topicconfig.Lookup("retention.ms")
	require.Equal(t, "log.retention.ms", again.Synonyms[0].Name)
	require.True(t, slices.IsSortedFunc(topicconfig.Definitions(), func(a, b topicconfig.Definition) int {
		return strings.Compare(a.Name, b.Name)
	}))
}

func FuzzParse(f *testing.F) {
	for _, d := range topicconfig.Definitions() {
		f.Add(d.Name, d.Default)
		f.Add(d.Name, other(d))
	}
	f.Add("retention.ms", strconv.Quote("\x00"))
	f.Fuzz(func(t *testing.T, name, text string) {
		c, err := topicconfig.Parse(map[string]string{name: text})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		again, err := topicconfig.Parse(map[string]string{name: c.Value(name)})
		require.NoError(t, err, "what is rendered can be parsed")
		require.Equal(t, c.Value(name), again.Value(name))
	})
}
