package command

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/meta"
	"github.com/tidemark-io/tidemark/node"
	"github.com/tidemark-io/tidemark/stream"
)

func newCheck() *cobra.Command {
	var deep bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check a bucket against the metadata: streams, objects, write-ahead logs",
		Long: `Check everything in a bucket against the metadata and report what is wrong: stream offsets that no object holds, or that
two do; objects that are missing, damaged or not what the metadata says; write-ahead logs that could not be recovered; and
objects that nothing uses any more. --deep reads and verifies every record; without it only headers and indexes are read.

The metadata is the file in the data directory of a stopped server, or the log in etcd that --meta-url names, which servers
may be using. Nothing is written. The exit code is 1 if anything is damaged; unused objects do not change it.

'tidemark log check' checks the partitions in a data directory, 'tidemark meta check' the metadata alone.`,
		Example: `  tidemark check --store 's3://bucket?region=eu-central-1' --meta-url etcd://10.0.0.1:2379/prod
  tidemark check --store file:///var/lib/bucket --data-dir /var/lib/tidemark --deep --output json`,
		Args: noArguments,
	}
	c.Flags().BoolVar(&deep, "deep", false, "read and verify every record")
	output := addOutputFlag(c)
	settings := addSettingFlags(c, "store", "data-dir", "meta-url", "meta-cacert", "meta-cert", "meta-key", "meta-user")
	settings.say(c, "store", "the bucket to check, as a URL; it is only read")
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		source, server, err := metaSource(c, settings)
		if err != nil {
			return err
		}
		if server.Store == "" {
			return usagef(c, "%s needs --store: the bucket to check, as a URL", c.CommandPath())
		}
		found, err := inspectMeta(c, source)
		if err != nil {
			return err
		}
		if len(found.Findings) > 0 {
			return fmt.Errorf("%w: the bucket cannot be checked against damaged metadata; 'tidemark meta check' shows the details",
				found.Findings[0])
		}
		return checkStore(c, server.Store, found, deep, asJSON)
	}
	return c
}

// checkStore prints findings as they come, and then a summary.
func checkStore(c *cobra.Command, url string, found *meta.Inspection, deep, asJSON bool) error {
	store, err := node.ReadObjects(c.Context(), url)
	if err != nil {
		return err
	}
	defer store.Close()
	report := storeReport{c: c, asJSON: asJSON, sum: storeSummary{
		Type: "summary", Store: store.String(), Log: found.Where, ClusterID: found.ClusterID,
		Streams: found.State.StreamCount(), Deep: deep,
	}}
	findings := stream.Check(c.Context(), stream.CheckOptions{
		Catalog: found.State, WAL: store, Data: store, Cluster: found.ClusterID, Deep: deep,
	})
	for f, err := range findings {
		if err != nil {
			return errors.Join(report.end(), fmt.Errorf("the check is incomplete: %w", err))
		}
		if err := report.finding(f); err != nil {
			return err
		}
	}
	if err := report.end(); err != nil {
		return err
	}
	if report.sum.Damage > 0 {
		return fmt.Errorf("%s is damaged: %s", store, plural(report.sum.Damage, "finding"))
	}
	return nil
}

// storeReport prints the results of a check.
type storeReport struct {
	c      *cobra.Command
	asJSON bool
	sum    storeSummary
}

// storeFinding is a finding in JSON; stream, object and node are absent where it does not concern one.
type storeFinding struct {
	Type     string `json:"type"` // "finding"
	Severity string `json:"severity"`
	Kind     string `json:"kind"`
	Stream   *int64 `json:"stream,omitempty"`
	Object   *int64 `json:"object,omitempty"`
	Node     *int64 `json:"node,omitempty"`
	Key      string `json:"key,omitempty"`
	Detail   string `json:"detail"`
}

// storeSummary ends a check.
type storeSummary struct {
	Type      string `json:"type"` // "summary"
	Store     string `json:"store"`
	Log       string `json:"log"`
	ClusterID string `json:"cluster_id"`
	Streams   int    `json:"streams"`
	Deep      bool   `json:"deep"`
	Damage    int    `json:"damage"`
	Waste     int    `json:"waste"`
}

func (r *storeReport) finding(f stream.Finding) error {
	if f.Severity == stream.Damage {
		r.sum.Damage++
	} else {
		r.sum.Waste++
	}
	if !r.asJSON {
		_, err := fmt.Fprintln(r.c.OutOrStdout(), f)
		return err
	}
	return json.NewEncoder(r.c.OutOrStdout()).Encode(storeFinding{
		Type: "finding", Severity: string(f.Severity), Kind: string(f.Kind), Stream: ifAny(f.Stream), Object: ifAny(f.Object),
		Node: ifAny(f.Node), Key: f.Key, Detail: f.Detail,
	})
}

// ifAny returns an id, or nil for -1.
func ifAny[ID ~int32 | ~int64](id ID) *int64 {
	if id < 0 {
		return nil
	}
	n := int64(id)
	return &n
}

func (r *storeReport) end() error {
	if r.asJSON {
		return json.NewEncoder(r.c.OutOrStdout()).Encode(r.sum)
	}
	state := "ok"
	if r.sum.Damage > 0 {
		state = "NOT OK"
	}
	depth := "headers and indexes"
	if r.sum.Deep {
		depth = "every record"
	}
	_, err := fmt.Fprintf(r.c.OutOrStdout(), "%s  %s  cluster %s  %s  %s read  damage %d  waste %d\n", r.sum.Store, state,
		r.sum.ClusterID, plural(r.sum.Streams, "stream"), depth, r.sum.Damage, r.sum.Waste)
	return err
}
