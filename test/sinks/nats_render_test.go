package sinks_test

import (
	"slices"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/nats"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/test/natsserver"
)

// TestNATSRenderIsWhatIsSent compares what a sink shows with what a subscriber of a
// real server gets.
func TestNATSRenderIsWhatIsSent(t *testing.T) {
	server := natsserver.Start(t, natsserver.Options{})
	for name, change := range map[string]func(c *nats.Config){"core": nil, "stream": useJetStream} {
		t.Run(name, func(t *testing.T) {
			c := config(t, server.URL(), change)
			c.SubjectPrefix = name
			conn := dial(t, server.URL())
			got, err := conn.SubscribeSync(name + ".>")
			must(t, err)
			must(t, conn.Flush())
			events := slices.Concat(sinktest.AllOps(), sinktest.Hostile())
			sinktest.Deliver(t, open(t, c), events)
			for i := range events {
				sent, err := got.NextMsg(patience)
				must(t, err)
				sameMessage(t, c, &events[i], sent)
			}
		})
	}
}

func sameMessage(t *testing.T, c *nats.Config, e *event.Event, sent *client.Msg) {
	t.Helper()
	r, err := c.Render(sinktest.Env(t), e)
	must(t, err)
	if r.To != sent.Subject || string(r.Body) != string(sent.Data) {
		t.Errorf("%s: rendered %s %s, sent %s %s", e.ID, r.To, r.Body, sent.Subject, sent.Data)
	}
	sent.Header.Del(jetstream.ExpectedLastSubjSeqHeader) // which depends on the stream, as the notes say
	headers := map[string][]string{}
	for _, h := range r.Headers {
		headers[h.Name] = []string{h.Value}
	}
	if len(headers) != len(sent.Header) {
		t.Errorf("%s: rendered %v, sent %v", e.ID, headers, sent.Header)
	}
	for name, values := range sent.Header {
		if !slices.Equal(headers[name], values) {
			t.Errorf("%s: header %s: rendered %q, sent %q", e.ID, name, headers[name], values)
		}
	}
}
