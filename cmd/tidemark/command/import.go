package command

import (
	"github.com/spf13/cobra"
)

func newImport() *cobra.Command {
	c := &cobra.Command{
		Use:     "import",
		Short:   "Take over the data of another server",
		Example: "  tidemark import kafka-dir /var/lib/kafka --data-dir tidemark-data",
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newImportKafkaDir())
	return c
}
