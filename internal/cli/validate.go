package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func validateCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "validate", Short: "check the config without contacting any server", GroupID: setUpGroup,
		Long: `informd validate reads the config as 'informd run' does, with the INFORMD_* variables and
the flags. It prints all errors at once, each as file:line:column with what to do. It
prints a warning where the config is valid but probably not intended. Relative paths in the
config are relative to the working directory of informd.`,
		Example: `informd validate -c config.yaml
INFORMD_LOG_LEVEL=debug informd validate -c config.yaml`,
		Annotations: exitCodes("0 the config is valid, 2 it has errors"),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := std.loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			for _, w := range c.Warnings {
				fmt.Fprintln(std.err, "warning:", w)
			}
			_, err = fmt.Fprintf(std.out, "%s: ok (resources: %d, sinks: %d)\n", c.Path, len(c.Resources), len(c.Sinks))
			return err
		},
	}
	configFlags(cmd)
	return cmd
}
