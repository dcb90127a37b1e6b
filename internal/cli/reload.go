package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/admin"
)

func reloadCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "reload", Short: "have a running informd reload its config", GroupID: operateGroup,
		Long: `informd reload has a running informd read its config again. It shows the number of targets,
and the sinks that were added, removed or changed. If the config has errors, or a key changed
that takes effect at the start only, informd shows them and continues with the config in use.

informd reloads the config on its own when the file changes.`,
		Example:     "informd reload -c config.yaml\ninformd reload -o json",
		Annotations: exitCodes("0 ok, 1 failure or the config was refused, 2 wrong usage"),
		Args:        noArguments,
	}
	return std.asking(cmd, nil, func(ctx context.Context, c client, output *format, _ []string) error {
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
	if done.Pending {
		_, err := fmt.Fprintf(out, "config %s reloaded; used when the journal opens\n", visible(done.Path))
		return err
	}
	parts := []string{fmt.Sprintf("config %s reloaded: %s", done.Path, number(done.Targets, "target", "targets"))}
	for _, sinks := range []struct {
		change string
		names  []string
	}{{"added", done.SinksAdded}, {"removed", done.SinksRemoved}, {"changed", done.SinksChanged}} {
		if len(sinks.names) > 0 {
			parts = append(parts, "sinks "+sinks.change+": "+strings.Join(sinks.names, ", "))
		}
	}
	_, err := fmt.Fprintln(out, visible(strings.Join(parts, "; ")))
	return err
}
