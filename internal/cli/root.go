package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/informd/informd/internal/display"
)

// The groups of commands in the help.
const (
	setUpGroup   = "set-up"
	runGroup     = "run"
	operateGroup = "operate"
	objectGroup  = "objects"
	otherGroup   = "other"
)

// usualExits are the exit codes of most commands.
const usualExits = "0 ok, 1 failure, 2 wrong usage or config"

// exitsKey is the annotation of a command with the meaning of its exit codes.
const exitsKey = "exits"

func exitCodes(text string) map[string]string { return map[string]string{exitsKey: text} }

const rootLong = `informd streams every change of the Kubernetes resources in its config to sinks such as
NATS, Kafka, PostgreSQL, webhooks and files.

An environment variable can set each single value of the config outside of resources and
sinks: INFORMD_LOG_LEVEL sets log.level. A flag overrides the variable, and the variable
overrides the file.`

// versionFlag is the flag that prints the version.
const versionFlag = "version"

// newRoot returns the command informd with all its subcommands.
func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use: cmp.Or(std.program.Name, "informd"), Short: "stream changes of Kubernetes resources to sinks", Long: rootLong,
		Example: `informd init
informd validate -c config.yaml
informd run -c config.yaml
informd status`,
		Annotations:   exitCodes(usualExits),
		Args:          cobra.ArbitraryArgs, // the error is ours
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch show, err := cmd.Flags().GetBool(versionFlag); {
			case err != nil:
				return err
			case len(args) > 0:
				return unknownCommand(cmd, args[0])
			case show:
				_, err := fmt.Fprintln(std.out, std.program.line())
				return err
			}
			return cmd.Help()
		},
	}
	root.AddGroup(
		&cobra.Group{ID: setUpGroup, Title: "Set up:"}, &cobra.Group{ID: runGroup, Title: "Run:"},
		&cobra.Group{ID: operateGroup, Title: "Ask a running informd:"},
		&cobra.Group{ID: objectGroup, Title: "Look at objects:"}, &cobra.Group{ID: otherGroup, Title: "Other:"},
	)
	help := helpCommand()
	root.AddCommand(
		demoCommand(std), initCommand(std), validateCommand(std), tryCommand(std), planCommand(std), rbacCommand(std), schemaCommand(std), explainCommand(std),
		runCommand(std),
		statusCommand(std), verifyCommand(std), reloadCommand(std), rewindCommand(std), resnapshotCommand(std), deadLettersCommand(std),
		tailCommand(std), historyCommand(std), gapsCommand(std), getCommand(std), diffCommand(std), undeleteCommand(std),
		completionCommand(std), versionCommand(std), help,
	)
	root.SetHelpCommand(help)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	// cobra's own --version takes a template. Templates call methods by name, so the linker
	// would keep every exported method: 8 MiB of binary and 3 MiB of memory.
	root.Flags().BoolP(versionFlag, "v", false, "print the version")
	root.SetFlagErrorFunc(flagError)
	completeHelp(root)
	return root
}

// completeHelp adds the exit codes to the help of a command and of all its subcommands, and
// indents the examples. cobra does neither.
func completeHelp(cmd *cobra.Command) {
	cmd.Long += "\n\nExit codes: " + cmd.Annotations[exitsKey] + "."
	cmd.Example = "  " + strings.ReplaceAll(cmd.Example, "\n", "\n  ")
	for _, sub := range cmd.Commands() {
		completeHelp(sub)
	}
}

// unknownCommand returns the error of a subcommand that does not exist, with the one that
// was probably meant.
func unknownCommand(parent *cobra.Command, name string) error {
	if !parent.HasParent() && isConfigFile(name) {
		return misused("unknown command %q: did you mean informd run --config %[1]s?", name)
	}
	names := subcommands(parent)
	meant := display.DidYouMean(name, names)
	if meant == "" && parent.HasParent() {
		return misused("unknown command %q: %s needs one of %s", name, parent.Name(), strings.Join(names, ", "))
	}
	return misused("unknown command %q%s", name, meant)
}

// subcommands returns the names of the visible subcommands.
func subcommands(parent *cobra.Command) (names []string) {
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// flagError returns the error of a flag, with the flag or command that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
		return unknownCommand(cmd, cmd.Flags().Arg(0))
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	switch {
	case !ok:
		return misused("%v", err)
	case !cmd.HasParent():
		return misused("%v: a command comes first, as in informd run --config config.yaml", err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near, ok := display.Nearest(unknown.GetSpecifiedName(), names); ok {
		return misused("%v (did you mean --%s?)", err, near)
	}
	return misused("%v", err)
}

// isConfigFile reports whether an argument looks like the name of a config.
func isConfigFile(arg string) bool {
	return strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml")
}

// noArguments is the check of commands without arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	switch {
	case len(args) == 0:
		return nil
	case flags.Lookup("file") != nil && !flags.Changed("file"):
		return misused("unexpected argument %q: did you mean %s -f %[1]s?", args[0], cmd.CommandPath())
	case flags.Lookup("config") != nil && isConfigFile(args[0]):
		return misused("unexpected argument %q: did you mean --config %[1]s?", args[0])
	default:
		return misused("unexpected argument %q", args[0])
	}
}

// oneOf is the check of commands that take one word of a few.
func oneOf(words ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && slices.Contains(words, args[0]) {
			return nil
		}
		return misused("%s needs one of %s", cmd.Name(), strings.Join(words, ", "))
	}
}

// helpCommand is `informd help <command>`.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "show the help of a command", GroupID: otherGroup,
		Long:        "informd help shows the help of a command, as the flag --help does.",
		Example:     "informd help resnapshot\ninformd help deadletters drop",
		Annotations: exitCodes("0 ok, 2 unknown command"), DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || found.HasSubCommands() && len(rest) > 0 {
				return unknownCommand(cmp.Or(found, cmd.Root()), args[len(args)-max(len(rest), 1)])
			}
			found.InitDefaultHelpFlag() // cobra adds it to the command that runs only
			return found.Help()
		},
	}
}

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
