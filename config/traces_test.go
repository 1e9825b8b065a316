package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheReceiverOfTracesIsNamedByOurKeyOrByOpenTelemetrys(t *testing.T) {
	const everything, traces = "OTEL_EXPORTER_OTLP_ENDPOINT=http://all:4318/", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://only:4318/x"
	for _, test := range []struct {
		environ []string
		want    string
		source  Source
	}{
		{nil, "", DefaultSource},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT="}, "", DefaultSource},
		{[]string{everything}, "http://all:4318/v1/traces", "environment OTEL_EXPORTER_OTLP_ENDPOINT"},
		{[]string{traces, everything}, "http://only:4318/x", "environment OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{[]string{"TIDEMARK_TRACE_ENDPOINT=https://ours", traces, everything}, "https://ours", "environment TIDEMARK_TRACE_ENDPOINT"},
	} {
		loaded, err := Load(Sources{Environ: test.environ})
		require.NoError(t, err)
		require.Equal(t, test.want, loaded.Server.TraceEndpoint)
		require.Contains(t, loaded.Values, Value{"trace-endpoint", test.want, test.source})
	}
}

func TestTheSettingsOfTracesAreChecked(t *testing.T) {
	loaded, err := Load(Sources{Flags: map[string][]string{"trace-sample-ratio": {"0.25"}, "trace-endpoint": {"http://me:abc@c:4318"}}})
	require.NoError(t, err)
	require.Equal(t, 0.25, loaded.Server.TraceRatio)
	require.Contains(t, loaded.Values, Value{"trace-endpoint", "http://me:hidden@c:4318", "flag --trace-endpoint"})
	for key, values := range map[string][]string{
		"trace-endpoint": {"collector:4318", "ftp://c", "http://"}, "trace-sample-ratio": {"-0.1", "1.1", "half", "NaN"},
	} {
		for _, value := range values {
			_, err := Load(Sources{Flags: map[string][]string{key: {value}}})
			require.ErrorContains(t, err, key, value)
		}
	}
}
