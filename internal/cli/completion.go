package cli

import (
	"github.com/spf13/cobra"
)

func completionCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "print the completion script of a shell", GroupID: otherGroup,
		Long: `informd completion prints a script with which a shell completes commands, flags, formats,
resources, and the names of sinks in the config.`,
		Example: `source <(informd completion bash)                               # this shell; bash needs bash-completion
informd completion bash > /etc/bash_completion.d/informd         # every shell
informd completion zsh > "${fpath[1]}/_informd"
informd completion fish > ~/.config/fish/completions/informd.fish`,
		Annotations: exitCodes("0 ok, 2 wrong usage"), DisableFlagsInUseLine: true,
		ValidArgs: []string{"bash", "zsh", "fish"}, Args: oneOf("bash", "zsh", "fish"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(std.out, true)
			case "zsh":
				return root.GenZshCompletion(std.out)
			default:
				return root.GenFishCompletion(std.out, true)
			}
		},
	}
}
