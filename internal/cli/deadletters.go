package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/informd/informd/internal/admin"
	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/display"
)

func deadLettersCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "deadletters", Short: "list, redeliver or drop the dead letters of a running informd", GroupID: operateGroup,
		Long: `A dead letter is an event that a destination refused for good, with the reason. The
dead-letter queue of "source" has the objects of the API server that informd cannot read.
The queue of a sink stays when the sink leaves the config.`,
		Example:     "informd deadletters list\ninformd deadletters redeliver --sink hook --number 3,5\ninformd deadletters drop --sink hook --all",
		Annotations: exitCodes(usualExits), DisableFlagsInUseLine: true,
		Args: cobra.ArbitraryArgs, // the error is ours
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return misused("deadletters needs one of %s", strings.Join(subcommands(cmd), ", "))
		},
	}
	cmd.AddCommand(listLettersCommand(std), redeliverCommand(std), dropCommand(std))
	return cmd
}

func listLettersCommand(std streams) *cobra.Command {
	var sink string
	cmd := &cobra.Command{
		Use: "list", Short: "list dead letters",
		Long:        "informd deadletters list shows one dead letter per line. -o json shows the whole events.",
		Example:     "informd deadletters list\ninformd deadletters list --sink hook -o json",
		Annotations: exitCodes(usualExits),
		Args:        noArguments,
	}
	std.sinkFlag(cmd, &sink, `name of the sink, or "source" (default: all)`, config.SourceName)
	return std.asking(cmd, []string{formatTable, formatJSON}, func(ctx context.Context, c client, output *format, _ []string) error {
		return c.do(ctx, http.MethodGet, "/deadletters", url.Values{"sink": {sink}}, func(body io.Reader) error {
			if output.value == formatJSON {
				return eachLine(body, func(line []byte) error {
					_, err := std.out.Write(display.JSON(line))
					return err
				})
			}
			return printLetters(std.out, body)
		})
	})
}

// changing makes cmd a command that changes the letters that its flags choose. Done is how it reports
// them, and question what it asks before it changes all letters of a sink.
func (std streams) changing(cmd *cobra.Command, done, question string, sinks ...string) *cobra.Command {
	var sink string
	var numbers []string
	var all, yes bool
	std.sinkFlag(cmd, &sink, "name of the sink", sinks...)
	cmd.Flags().StringSliceVar(&numbers, "number", nil, "numbers of dead letters, as list shows them")
	cmd.Flags().BoolVar(&all, "all", false, "all dead letters of the sink")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case sink == "" || all == (len(numbers) > 0):
			return misused("deadletters %s needs --sink, and either --number or --all", cmd.Name())
		case all && !yes:
			return confirm(std, fmt.Sprintf(question, visible(sink)))
		}
		return nil
	}
	return std.asking(cmd, nil, func(ctx context.Context, c client, output *format, _ []string) error {
		query := url.Values{"sink": {sink}, "number": numbers, "all": {fmt.Sprint(all)}}
		var n admin.Count
		if err := c.post(ctx, "/deadletters/"+cmd.Name(), query, &n); err != nil {
			return err
		}
		err := output.show(std.out, n, func(out io.Writer) error {
			_, err := fmt.Fprintf(out, "%s %s of sink %s\n", done, number(n.Events, "dead letter", "dead letters"), visible(sink))
			if n.Filtered > 0 && err == nil {
				_, err = fmt.Fprintf(out, "%s kept, filtered out by match or condition of the sink: change the config, or run informd deadletters drop\n", number(n.Filtered, "dead letter", "dead letters"))
			}
			return err
		})
		if n.Refused > 0 && err == nil {
			return fmt.Errorf("%s refused again, with a new number: informd deadletters list shows the reason", number(n.Refused, "dead letter", "dead letters"))
		}
		return err
	})
}

func redeliverCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "redeliver", Short: "deliver dead letters again",
		Long: `informd deadletters redeliver delivers dead letters again, with a run, which is a part
of the id (:r<run>). A dead letter that the destination accepts leaves the dead-letter queue.
One that it refuses again gets a new number. One that match or condition of the sink filters
out stays.
On a compacted Kafka topic, an old event replaces newer ones: drop the dead letter there, and
run informd resnapshot with --sink. With --all it asks for confirmation on a terminal; in a
script it needs --yes.`,
		Example:     "informd deadletters redeliver --sink hook --number 3,5\ninformd deadletters redeliver --sink hook --all --yes",
		Annotations: exitCodes(usualExits),
		Args:        noArguments,
	}
	return std.changing(cmd, "redelivered", "Deliver all dead letters of sink %s again?")
}

func dropCommand(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "drop", Short: "remove dead letters for good",
		Long: `informd deadletters drop removes dead letters for good. With --all it asks for
confirmation on a terminal; in a script it needs --yes.`,
		Example:     "informd deadletters drop --sink hook --number 3,5\ninformd deadletters drop --sink hook --all --yes",
		Annotations: exitCodes(usualExits),
		Args:        noArguments,
	}
	return std.changing(cmd, "dropped", "Drop all dead letters of sink %s for good?", config.SourceName)
}

// eachLine calls do with each line of body that is not empty.
func eachLine(body io.Reader, do func(line []byte) error) error {
	for lines := bufio.NewReader(body); ; {
		line, end := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := do(line); err != nil {
				return err
			}
		}
		if errors.Is(end, io.EOF) {
			return nil
		}
		if end != nil {
			return end
		}
	}
}

func printLetters(out io.Writer, body io.Reader) error {
	rows := [][]string{{"SINK", "NUMBER", "TIME", "OP", "OBJECT", "EVENT", "REASON"}}
	err := eachLine(body, func(line []byte) error {
		var l admin.Letter
		var letter keptLetter
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		if err := json.Unmarshal(l.Letter, &letter); err != nil {
			letter.Reason = "this letter is damaged: its JSON does not have the form of a dead letter"
		}
		// Texts are not shortened, so that users can copy them.
		object, id := letter.about()
		rows = append(rows, []string{l.Sink, count(l.Number), letter.Time, letter.Event.Op, object, id, letter.Reason})
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(rows) == 1:
		_, err := fmt.Fprintln(out, "no dead letters")
		return err
	}
	return align(out, rows)
}

// keptLetter has the parts of a letter that the list shows. A letter of the source has a
// target and a key instead of an event.
type keptLetter struct {
	Time, Reason, Target, Key string
	Event                     struct{ ID, Op, Subject string }
}

// about names the object, as in core/pods/shop/web, and the event, or the state of the
// object if there is no event.
func (l *keptLetter) about() (object, id string) {
	if l.Event.ID != "" {
		return l.Event.Subject, l.Event.ID
	}
	name, state, found := strings.Cut(l.Key, " uid=")
	if found {
		state = "uid=" + state
	}
	return strings.Trim(l.Target+"/"+strings.TrimLeft(name, "/"), "/"), state
}

// confirm asks a question on a terminal. Any answer but yes is an error, and so is a
// standard input that is no terminal.
func confirm(std streams, question string) error {
	if !asksTerminal(std.in) {
		return misused("standard input is no terminal: confirm with --yes")
	}
	fmt.Fprint(std.err, question+" [y/N] ")
	answer, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil && answer == "" {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed; informd changed nothing")
}

// keyboard is an input with a person behind it; tests have their own.
type keyboard interface{ Interactive() bool }

// asksTerminal reports whether a person can answer questions.
func asksTerminal(in io.Reader) bool {
	if k, ok := in.(keyboard); ok {
		return k.Interactive()
	}
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
