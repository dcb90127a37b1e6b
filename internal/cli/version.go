package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func versionCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", GroupID: otherGroup,
		Long: `informd version prints the version of informd, the version of Go, and the platform.
'informd --version' prints the same.`,
		Example: "informd version", Annotations: exitCodes("0 ok"),
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(std.out, std.program.line())
			return err
		},
	}
}
