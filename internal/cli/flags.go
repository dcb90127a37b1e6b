package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/internal/display"
)

// The formats of --output.
const (
	formatTable = "table"
	formatText  = "text"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// format is the value of --output. It implements [pflag.Value].
type format struct {
	value   string
	allowed []string
}

func (f *format) String() string { return f.value }

// Type implements [pflag.Value].
func (*format) Type() string { return "format" }

// Set implements [pflag.Value].
func (f *format) Set(text string) error {
	if !slices.Contains(f.allowed, text) {
		return fmt.Errorf("it must be %s", alternatives(f.allowed))
	}
	f.value = text
	return nil
}

// alternatives joins words as in "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// outputFlag adds --output with these formats to a command; the first one is the default.
func outputFlag(cmd *cobra.Command, formats ...string) *format {
	if len(formats) == 0 {
		formats = []string{formatTable, formatJSON, formatYAML}
	}
	f := &format{value: formats[0], allowed: formats}
	cmd.Flags().VarP(f, "output", "o", "output format: "+alternatives(formats))
	complete(cmd, "output", formats...)
	return f
}

// show writes the document in the format; table writes its text for people.
func (f *format) show(out io.Writer, document any, table func(io.Writer) error) error {
	switch f.value {
	case formatJSON:
		e := json.NewEncoder(display.JSONWriter(out))
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(document)
	case formatYAML:
		text, err := yAML(document)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	default:
		return table(out)
	}
}

// complete has a flag completed with words.
func complete(cmd *cobra.Command, flag string, words ...string) {
	completeBy(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func completeBy(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, by) // its only error is about a missing flag
}

// sinkFlag adds --sink to a command; completion takes the names from the config.
func (std streams) sinkFlag(cmd *cobra.Command, into *string, usage string, more ...string) {
	cmd.Flags().StringVar(into, "sink", "", usage)
	completeBy(cmd, "sink", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		names := slices.Clone(more)
		if c, err := std.loadConfig(cmd.Flags()); err == nil {
			for _, s := range c.Sinks {
				names = append(names, s.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
}

// completeResources completes arguments with the resources of the config.
func (std streams) completeResources(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := std.loadConfig(cmd.Flags())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range c.Resources {
		name := config.KubectlName(r.Group, r.Resource)
		if !config.IsGlob(name) && !slices.Contains(given, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// configFlag adds --config to a command.
func configFlag(cmd *cobra.Command) {
	configfile.AddFileFlag(cmd.Flags())
	completeConfig(cmd)
}

// configFlags adds --config and the flags that override keys of the config.
func configFlags(cmd *cobra.Command) {
	configfile.AddFlags(cmd.Flags())
	completeConfig(cmd)
	complete(cmd, "log-level", "debug", "info", "warn", "error")
}

func completeConfig(cmd *cobra.Command) {
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // its only error is about a missing flag
}

// loadConfig reads the config that the flags name.
func (std streams) loadConfig(flags *pflag.FlagSet) (*config.Config, error) {
	return configfile.Load(configfile.Source{Flags: flags, Drivers: std.program.Drivers})
}

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
