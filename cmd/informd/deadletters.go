package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/informd/informd/cmd/informd/internal/admin"
	"github.com/informd/informd/cmd/informd/internal/config"
	"github.com/informd/informd/internal/display"
)

func deadLettersCommand() command {
	return command{
		name: "deadletters", verbs: []string{"list", "replay", "drop"},
		summary: "list | replay | drop what a running informd could not deliver",
		long: `It asks the informd that runs with this config, through admin.socket. A dead letter is
an event that the destination refused for good, with the reason. Replayed, it is
delivered again, under the old id with :r<run> at its end, and leaves the dead
letters when it has been taken; dropped, it is gone.`,
		examples: `informd deadletters list
informd deadletters list --sink hook -o json
informd deadletters replay --sink hook --number 3,5
informd deadletters drop --sink hook --all`,
		exits: "0 ok, 1 failure, 2 wrong usage or config",
		flags: func(flags *pflag.FlagSet) {
			config.AddFlags(flags)
			flags.String("sink", "", `name of the sink; "source" is what the API server sent and informd cannot read (list: all)`)
			flags.StringSlice("number", nil, "numbers of letters, as list shows them (replay, drop)")
			flags.Bool("all", false, "all letters of the sink (replay, drop)")
			flags.StringP("output", "o", "table", "table or json: with the whole events (list)")
		},
		run: func(ctx context.Context, io streams, flags *pflag.FlagSet) error {
			c, err := newClient(ctx, flags)
			if err != nil {
				return err
			}
			if flags.Arg(0) == "list" {
				return listLetters(ctx, c, io.out, flags)
			}
			return changeLetters(ctx, c, io.out, flags)
		},
	}
}

// listLetters prints one line per letter.
func listLetters(ctx context.Context, c client, out io.Writer, flags *pflag.FlagSet) error {
	output := flags.Lookup("output").Value.String()
	if output != "table" && output != "json" {
		return misused("--output %q: table or json", output)
	}
	query := url.Values{"sink": {flags.Lookup("sink").Value.String()}}
	return c.do(ctx, http.MethodGet, "/deadletters", query, func(body io.Reader) error {
		if output == "json" {
			return copyLines(out, body)
		}
		return printLetters(out, body)
	})
}

// copyLines copies lines of JSON, without what a terminal would obey.
func copyLines(out io.Writer, body io.Reader) error {
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadBytes('\n')
		if _, err := out.Write(display.JSON(line)); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func printLetters(out io.Writer, body io.Reader) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	const head = "SINK\tNUMBER\tTIME\tOP\tOBJECT\tEVENT\tREASON"
	none := true
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) == 0 {
			if none {
				fmt.Fprintln(table, "no dead letters")
			}
			return table.Flush()
		}
		if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		if none {
			fmt.Fprintln(table, head)
			none = false
		}
		var l admin.Letter
		var letter keptLetter
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		if err := json.Unmarshal(l.Letter, &letter); err != nil {
			letter.Reason = "this letter is damaged: " + err.Error()
		}
		object, id := letter.about()
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.Sink, l.Number, cell(letter.Time),
			cell(letter.Event.Op), cell(object), cell(id), cell(shortened(letter.Reason)))
	}
}

// keptLetter is what the list shows of a letter: of an event, or of what the API server
// sent, which has a target and a key.
type keptLetter struct {
	Time, Reason, Target, Key string
	Event                     struct{ ID, Op, Subject string }
}

// about names what the letter is about, as in core/pods/shop/web, and the event, or the
// state of the object if there is no event.
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

// cell is a text for a table: names come from the cluster, and may have anything in
// them. They are whole, so that they can be copied.
func cell(s string) string { return cmp.Or(visible(s), "-") }

// changeLetters replays or drops.
func changeLetters(ctx context.Context, c client, out io.Writer, flags *pflag.FlagSet) error {
	numbers, err := flags.GetStringSlice("number")
	if err != nil {
		return misused("%v", err)
	}
	all, err := flags.GetBool("all")
	if err != nil {
		return misused("%v", err)
	}
	sink := flags.Lookup("sink").Value.String()
	if sink == "" || all == (len(numbers) > 0) {
		return misused("deadletters %s needs --sink, and either --number or --all", flags.Arg(0))
	}
	query := url.Values{"sink": {sink}, "number": numbers, "all": {fmt.Sprint(all)}}
	var n admin.Count
	if err := c.post(ctx, "/deadletters/"+flags.Arg(0), query, &n); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d letters of sink %s\n", flags.Arg(0), n.Events, sink)
	return err
}
