package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the release, set by the linker (-X) when one is built.
var version = "dev"

// buildInfo is what `tidemark version` prints.
type buildInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuildInfo() buildInfo {
	info := buildInfo{
		Version:  version,
		Commit:   "unknown",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				info.Commit = s.Value
			}
		}
	}
	return info
}

func newVersion() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Example: `  tidemark version
  tidemark version --output json`,
		Args: noArguments,
	}
	output := addOutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := output.json(c)
		if err != nil {
			return err
		}
		info := readBuildInfo()
		if asJSON {
			return writeJSON(c.OutOrStdout(), info)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "tidemark %s (commit %s, %s, %s)\n", info.Version, info.Commit, info.Go,
			info.Platform)
		return err
	}
	return c
}
