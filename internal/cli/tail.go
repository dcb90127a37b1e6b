package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

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
