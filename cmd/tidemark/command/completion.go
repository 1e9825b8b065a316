package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for bash, zsh, fish or powershell",
		Example: `  source <(tidemark completion bash)     for this shell
  tidemark completion zsh > "${fpath[1]}/_tidemark"`,
		Args:      exactly("SHELL"),
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			out := c.OutOrStdout()
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return c.Root().GenZshCompletion(out)
			case "fish":
				return c.Root().GenFishCompletion(out, true)
			case "powershell":
				return c.Root().GenPowerShellCompletionWithDesc(out)
			}
			return usagef(c, "no completion for %q: it is one of %s", args[0], fmt.Sprint(shells))
		},
	}
}
