package view

import (
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// message is one of a stream, as a consumer gets it.
type message struct {
	jetstream.Msg

	header   nats.Header
	sequence jetstream.SequencePair
}

func (m message) Headers() nats.Header { return m.header }

func (m message) Data() []byte { return nil }

func (m message) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: m.sequence}, nil
}

// TestComplete: the end of a snapshot is not enough. The stream may have trimmed the events
// of an object that were before it.
func TestComplete(t *testing.T) {
	v := &View{table: newTable()}
	v.begin(time.Unix(1, 0), 9)
	delivered := uint64(0)
	take := func(op string, sequence uint64) {
		t.Helper()
		header := nats.Header{}
		for name, value := range map[string]string{"op": op, "cluster": "c", "resource": "pods", "subject": "core/pods", "run": "7", "name": op} {
			header["ce-"+name] = []string{value}
		}
		var err error
		m := message{header: header, sequence: jetstream.SequencePair{Consumer: delivered + 1, Stream: sequence}}
		if delivered, err = v.take(m, delivered); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, want bool) {
		t.Helper()
		if got := v.Complete("c", "core/pods"); got != want || len(v.Targets("c")) == 1 != want {
			t.Errorf("%s: complete is %v, %v", when, got, v.Targets("c"))
		}
	}
	take("begin", 3)
	take("synced", 4)
	expect("behind the end of the snapshot", false)
	take("added", 6)
	expect("before the end of the stream", false)
	take("added", 9)
	expect("at what was the end of the stream", true)
	v.begin(time.Unix(2, 0), 20)
	expect("in another stream", true)
}

// idleStream is a stream that exists.
type idleStream struct {
	jetstream.Stream

	created time.Time
}

func (s idleStream) Info(context.Context, ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return &jetstream.StreamInfo{Created: s.created}, nil
}

// idleConsumer has delivered a message, and has others to deliver.
type idleConsumer struct {
	jetstream.Consumer

	pending uint64
}

func (c idleConsumer) Info(context.Context) (*jetstream.ConsumerInfo, error) {
	return &jetstream.ConsumerInfo{NumPending: c.pending, Delivered: jetstream.SequenceInfo{Consumer: 1}}, nil
}

// TestIdle: that no message came for a while is not enough for the end of the stream.
func TestIdle(t *testing.T) {
	v := &View{table: newTable()}
	created := time.Unix(1, 0)
	v.begin(created, 1)
	expect := func(when string, pending, delivered uint64, want bool) {
		t.Helper()
		if err := v.idle(t.Context(), idleStream{created: created}, idleConsumer{pending: pending}, delivered); err != nil || v.reached != want {
			t.Errorf("%s: the end is reached: %v, %v", when, v.reached, err)
		}
	}
	expect("a message is pending", 1, 1, false)
	expect("a message is on its way", 0, 0, false)
	expect("all messages came", 0, 1, true)
	if err := v.idle(t.Context(), idleStream{created: time.Unix(2, 0)}, idleConsumer{}, 1); !errors.Is(err, errReplaced) {
		t.Errorf("in another stream: %v", err)
	}
}

// TestPage: the messages on the page are those that the view reads.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/materialised-view.md")
	if err != nil {
		t.Fatal(err)
	}
	table := newTable()
	var began []target
	for _, block := range regexp.MustCompile("(?s)```text\n(.*?)```").FindAllSubmatch(page, -1) {
		header, body := nats.Header{}, ""
		for line := range strings.Lines(string(block[1])) {
			name, value, isHeader := strings.Cut(strings.TrimSpace(line), ": ")
			switch {
			case isHeader && strings.HasPrefix(name, "ce-"):
				header[name] = []string{value}
			case strings.HasPrefix(line, "{"):
				body = line
			}
		}
		e, err := decode(header, []byte(body))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, block[1])
		}
		table.apply(e)
	}
	for one := range maps.Keys(table.snapshots) {
		began = append(began, one)
	}
	if want := (target{"prod-eu1", "apps/deployments"}); len(began) != 1 || began[0] != want {
		t.Errorf("the page begins snapshots of %v, want %v", began, want)
	}
	row := table.rows[Key{"prod-eu1", "apps", "deployments", "shop", "web"}]
	if row == nil || row.UID == "" || row.At.ResourceVersion == 0 || row.At.Ordinal == 0 || len(row.JSON) == 0 {
		t.Errorf("the page makes the row %+v", row)
	}
}
