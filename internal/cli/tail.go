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
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/tail"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/stdout"
)

func tailCommand(std streams) *cobra.Command {
	var filter tail.Filter
	cmd := &cobra.Command{
		Use: "tail [<resource>]", Short: "show events of a running informd as they come", GroupID: objectGroup,
		Long: `informd tail shows the events that a running informd appends to its journal from now on,
until Ctrl-C, as a stdout sink with format: pretty. -o json writes each event as a line of
CloudEvents JSON. The resource can be a pattern, such as '*.apps'.

A tail costs no sink anything. One that does not keep up misses events, and says how many.`,
		Example: `informd tail
informd tail pods --namespace shop --op deleted
informd tail deployments.apps --condition 'object.spec.replicas > 3' -o json`,
		Annotations:       exitCodes("0 interrupted, 1 failure or the tail was ended, 2 wrong usage or config"),
		ValidArgsFunction: std.completeResources,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misused("tail takes one resource or pattern, as in informd tail '*.apps'")
			}
			return nil
		},
		PreRunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				filter.Resource = args[0]
			}
			if _, err := filter.Compile(); err != nil {
				return misused("%v", err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.Namespace, "namespace", "", "only events of this namespace")
	flags.StringVar(&filter.Name, "name", "", "only events of the object of this name")
	flags.StringVar(&filter.Op, "op", "", "only this operation, as in modified")
	flags.StringVar(&filter.Condition, "condition", "", "only events for which this CEL expression is true: docs/filtering.md")
	return std.asking(cmd, []string{formatText, formatJSON}, func(ctx context.Context, c client, output *format, _ []string) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
		lines, err := (&stdout.Config{Format: stdout.Pretty}).Open(ctx, sink.Env{Stdout: std.out})
		if err != nil {
			return err
		}
		defer func() { _ = lines.Close(ctx) }() // an error says that an interrupted write hangs
		show := tailText(ctx, lines)
		if output.value == formatJSON {
			show = tailJSON(ctx, std.out)
		}
		query := url.Values{
			"resource": {filter.Resource}, "namespace": {filter.Namespace}, "name": {filter.Name}, "op": {filter.Op},
			"condition": {filter.Condition},
		}
		err = c.do(ctx, http.MethodGet, "/tail", query, func(body io.Reader) error {
			return followTail(body, show, func(note string) { fmt.Fprintf(std.err, "%s: %s\n", std.program.Name, visible(note)) })
		})
		if ctx.Err() != nil {
			return nil // interrupted
		}
		return err
	})
}

// errEnded is the end of a tail by informd without a reason, as when it stops.
var errEnded = errors.New("informd ended the tail: it stops, or the connection broke")

// followTail reads server-sent events. It calls show with each event as JSON, and note with what
// else informd reports. It returns when the tail ends.
func followTail(body io.Reader, show func(text []byte) error, note func(string)) error {
	lines := bufio.NewReader(body)
	kind := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return errEnded
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			kind = string(name)
			continue
		}
		text, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		if kind == "" {
			if err := show(text); err != nil {
				return err
			}
			continue
		}
		if err := reportTail(kind, text, note); err != nil {
			return err
		}
		kind = ""
	}
}

// reportTail is a message that is no event.
func reportTail(kind string, text []byte, note func(string)) error {
	var said struct{ Events uint64 }
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("read the tail: %w", err)
	}
	switch kind {
	case "failed":
		note(fmt.Sprintf("the condition failed for %s so far; they are not shown", number(said.Events, "event", "events")))
	case "skipped":
		note(fmt.Sprintf("not shown so far, because they came too fast: %s; narrow the filter", number(said.Events, "event", "events")))
	}
	return nil
}

// tailText writes each event as a stdout sink writes it for people.
func tailText(ctx context.Context, to sink.Sink) func(text []byte) error {
	return func(text []byte) error {
		e, err := event.ParseJSON(text)
		if err != nil {
			return fmt.Errorf("read the tail: %w", err)
		}
		_, err = to.Write(ctx, []event.Event{e})
		return err
	}
}

// tailJSON writes each event as a line. A write to a full pipe cannot be cancelled: after the end of ctx it is not
// waited for.
func tailJSON(ctx context.Context, out io.Writer) func(text []byte) error {
	return func(text []byte) error {
		line, written := append(display.JSON(text), '\n'), make(chan error, 1)
		go func() {
			_, err := out.Write(line)
			written <- err
		}()
		select {
		case err := <-written:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
