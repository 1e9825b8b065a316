package command

import (
	"github.com/spf13/cobra"
)

func newLog() *cobra.Command {
	c := &cobra.Command{
		Use:   "log",
		Short: "Print, check and repair log files, offline",
		Example: `  tidemark log dump tidemark-data/orders-0
  tidemark log dump tidemark-data/orders-0/00000000000000000000.log --records
  tidemark log check tidemark-data
  tidemark log repair tidemark-data`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newLogDump(), newLogCheck(), newLogRepair())
	return c
}
