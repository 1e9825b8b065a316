package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-io/tidemark/config"
)

// finding is the result of one check of the doctor.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // statusOK, statusWarn or statusFail
	Detail string `json:"detail"`
}

// The outcomes of a check.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "FAIL"
)

func okay(check, format string, args ...any) finding {
	return finding{check, statusOK, fmt.Sprintf(format, args...)}
}

func warn(check, format string, args ...any) finding {
	return finding{check, statusWarn, fmt.Sprintf(format, args...)}
}

func fail(check, format string, args ...any) finding {
	return finding{check, statusFail, fmt.Sprintf(format, args...)}
}

func newDoctor() *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the machine, the data directory and the addresses of a server",
		Long: `Check what commonly goes wrong with a server that has the same flags, environment and file, whether it runs or not: that
advertised addresses lead to this server; that the data directory can be written, that its journal is sound and nothing is
in quarantine, on which file system it is and how fast that syncs; free space, descriptors, memory and the clock. Nothing is
changed; a small file is written and removed again.

The exit code is 1 if a check fails; warnings do not change it.`,
		Example: `  tidemark doctor
  tidemark doctor --config /etc/tidemark.yaml
  tidemark doctor --kafka-listen 0.0.0.0:9092 --kafka-advertise broker1:9092 --output json`,
		Args: noArguments,
	}
	settings := addServerFlags(c)
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		loaded, err := settings.load(c)
		if err != nil {
			return err
		}
		findings := examine(c.Context(), loaded.Server)
		if asJSON {
			err = writeJSON(c.OutOrStdout(), findings)
		} else {
			err = printFindings(c, findings)
		}
		return errors.Join(err, judge(findings))
	}
	return c
}

// examine runs every check.
func examine(ctx context.Context, s config.Server) []finding {
	var all []finding
	all = append(all, examineData(s.DataDir)...)
	all = append(all, examineJournal(ctx, s.DataDir)...)
	all = append(all, examineDescriptors(descriptorLimit()), examineMemory(machineLimits(s)))
	all = append(all, examineClock(s.DataDir, time.Now())...)
	all = append(all, examineKafka(ctx, s)...)
	if s.HTTPListen != "" {
		all = append(all, examineHTTP(ctx, s))
	}
	return all
}

func printFindings(c *cobra.Command, findings []finding) error {
	t := newTable(c.OutOrStdout(), "CHECK", "", "")
	for _, f := range findings {
		t.row(f.Check, f.Status, f.Detail)
	}
	return t.flush()
}

// judge returns an error if any check failed.
func judge(findings []finding) error {
	failed := 0
	for _, f := range findings {
		if f.Status == statusFail {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d failed", plural(failed, "check"), len(findings))
}
