package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettingsOfNodesAreShownAndAltered(t *testing.T) {
	server := startServer(t)
	run := func(args ...string) string { return done(t, "", append(args, "--server", server)...) }
	require.Contains(t, run("cluster", "--config"), "\nno settings were changed while the nodes ran\n")
	require.Equal(t, "would have set log.retention.ms=5000 on all nodes\n", run("cluster", "alter", "-c", "log.retention.ms=5000", "--dry-run"))
	require.Equal(t, "set log.retention.ms=5000 on all nodes\n", run("cluster", "alter", "-c", "log.retention.ms=5000"))
	require.Equal(t, "set max.connections=900 on node 1\n", run("cluster", "alter", "-c", "max.connections=900", "--node", "1"))
	require.Contains(t, run("cluster", "--config"),
		"\nNODE  SETTING           VALUE  FROM\nall   log.retention.ms  5000   all nodes\n1     max.connections   900    node\n")
	require.Regexp(t, `1 +log\.retention\.ms +5000 +all nodes\n`, run("cluster", "--config=all"))
	golden(t, "cluster-config.json", masked(run("cluster", "--config", "-o", "json")))
	run("topic", "create", "orders")
	require.Regexp(t, `retention\.ms +5000 +server\n`, run("topic", "describe", "orders", "--config=all"))
	golden(t, "cluster-alter.json", run("cluster", "alter", "--unset", "log.retention.ms", "-o", "json"))
	require.Regexp(t, `retention\.ms +604800000 +default\n`, run("topic", "describe", "orders", "--config=all"))

	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{ExitFailed, "Cannot update these configs dynamically: [num.partitions]", []string{"-c", "num.partitions=3"}},
		{ExitFailed, "Invalid value soon for configuration log.retention.ms", []string{"-c", "log.retention.ms=soon"}},
		{ExitUsage, "nothing to change", nil},
	} {
		got := tidemark(t, "", append([]string{"cluster", "alter", "--server", server}, test.args...)...)
		require.Equal(t, test.code, got.Code)
		require.Contains(t, got.Err, test.want)
	}
	got := tidemark(t, "", "cluster", "--config=some", "--server", server)
	require.Equal(t, ExitUsage, got.Code)
}
