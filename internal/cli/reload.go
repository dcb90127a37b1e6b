package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
)

func reloadCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "reload", Short: "have a running informd reload its config", GroupID: operateGroup,
		Long: `informd reload has a running informd read its config again. It shows the resources, the
sinks and the keys that were added, removed or changed. If the config has errors, or a key
changed that takes effect at the start only, informd shows them and continues with the
config in use.

informd reloads the config on its own when the file changes.`,
		Example:     "informd reload -c config.yaml\ninformd reload -o json",
		Annotations: exitCodes("0 ok, 1 failure or the config was refused, 2 wrong usage"),
		Args:        noArguments,
	}
	return std.asking(cmd, func(ctx context.Context, c client, output *format, _ []string) error {
		var done admin.Reload
		if err := c.post(ctx, "/reload", nil, &done); err != nil {
			return err
		}
		for _, w := range done.Warnings {
			fmt.Fprintln(std.err, "warning:", visible(w))
		}
		return output.show(std.out, &done, func(out io.Writer) error { return printReload(out, &done) })
	})
}

func printReload(out io.Writer, done *admin.Reload) error {
	if len(done.Changes) == 0 {
		fmt.Fprintf(out, "config %s reloaded: nothing changed\n", visible(done.Path))
		return nil
	}
	fmt.Fprintf(out, "config %s reloaded: %s\n", visible(done.Path), number(len(done.Changes), "change", "changes"))
	rows := [][]string{{"KIND", "NAME", "CHANGE"}}
	for _, c := range done.Changes {
		rows = append(rows, []string{c.Kind, c.Name, c.Change})
	}
	return printTable(out, rows)
}
