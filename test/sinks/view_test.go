package sinks_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/examples/materialised-view/view"
	"github.com/informd/informd/test/natsserver"
)

// logged gets each line of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// TestOutageOfAView: the log of a materialised view has the beginning and the end of each outage, also if one has
// the same cause as the one before.
func TestOutageOfAView(t *testing.T) {
	conn := dial(t, natsserver.Start(t, natsserver.Options{}).URL())
	log := make(logged, 1000)
	v, err := view.New(conn, view.Options{Stream: "S", Logger: slog.New(slog.NewTextHandler(log, nil))})
	must(t, err)
	js, err := jetstream.New(conn)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the view ended: %v", err)
		}
	}()
	wait := func(text string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case line := <-log:
				if strings.Contains(line, text) {
					return
				}
			case <-deadline:
				t.Fatalf("the log lacks %q", text)
			}
		}
	}
	const missing, again = "find stream: ", "reading the stream again"
	wait(missing)
	create := func() {
		t.Helper()
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"events.>"}}); err != nil {
			t.Fatal(err)
		}
	}
	create()
	wait(again)
	must(t, js.DeleteStream(t.Context(), "S"))
	wait(missing)
	create()
	wait(again)
}
