package embedded_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/embedded"
)

const readerQuota = 64

// consumersOf lists the consumers of the journal's stream that a connection sees.
func consumersOf(t *testing.T, conn *nats.Conn) (names []string, thresholds []time.Duration) {
	t.Helper()
	st, err := js(t, conn).Stream(timeout(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	all := st.ListConsumers(timeout(t))
	for c := range all.Info() {
		names, thresholds = append(names, c.Name), append(thresholds, c.Config.InactiveThreshold)
	}
	if all.Err() != nil {
		t.Fatal(all.Err())
	}
	listed := 0
	short := st.ConsumerNames(timeout(t))
	for range short.Name() {
		listed++
	}
	if listed != len(names) || short.Err() != nil {
		t.Fatalf("%d names of %d consumers (%v)", listed, len(names), short.Err())
	}
	return names, thresholds
}

// A reader that makes consumers without end gets as many as readers may have. They end
// without it, and the process's own do not depend on them.
func TestReadersHaveAQuota(t *testing.T) {
	s, reader, _ := listening(t, config(t.TempDir()))
	theirs, err := js(t, reader).Stream(timeout(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	made, refused := 0, 0
	for n := range 2 * readerQuota {
		c := jetstream.ConsumerConfig{Durable: fmt.Sprintf("reader%d", n), MaxAckPending: -1}
		if n%2 == 0 {
			c = jetstream.ConsumerConfig{Name: fmt.Sprintf("reader%d", n), InactiveThreshold: 1000 * time.Hour}
		}
		_, err := theirs.CreateConsumer(timeout(t), c)
		var limit *jetstream.APIError
		switch {
		case err == nil:
			made++
		case errors.As(err, &limit) && limit.ErrorCode == 10026:
			refused++
		default:
			t.Fatal(err)
		}
	}
	if made != readerQuota || refused != readerQuota {
		t.Errorf("%d consumers were made, %d refused", made, refused)
	}
	_, thresholds := consumersOf(t, s.Conn())
	for _, d := range thresholds {
		if d <= 0 || d > time.Hour {
			t.Errorf("a reader's consumer outlives it by %s", d)
		}
	}

	own, err := js(t, s.Conn()).Stream(timeout(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	for range 1100 { // more than the server allows by default
		_, err := own.CreateConsumer(timeout(t), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: time.Hour})
		if err != nil {
			t.Fatalf("the process's own: %v", err)
		}
	}

	// A consumer that a reader deletes, or that expires, frees its place.
	if err := theirs.DeleteConsumer(timeout(t), "reader1"); err != nil {
		t.Fatal(err)
	}
	if err := own.DeleteConsumer(timeout(t), "reader3"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"again1", "again2"} {
		if _, err := theirs.CreateConsumer(timeout(t), jetstream.ConsumerConfig{Durable: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := theirs.CreateConsumer(timeout(t), jetstream.ConsumerConfig{Durable: "again3"}); err == nil {
		t.Error("readers have more than their quota")
	}
}

// Consumers that readers left are removed at the start, whether they may come again or not.
func TestReadersLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	s, reader, _ := listening(t, config(dir))
	theirs, err := js(t, reader).Stream(timeout(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	own, err := js(t, s.Conn()).Stream(timeout(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		if _, err := theirs.CreateConsumer(timeout(t), jetstream.ConsumerConfig{Durable: fmt.Sprintf("theirs%d", n)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := own.CreateConsumer(timeout(t), jetstream.ConsumerConfig{Durable: "own"}); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	for name, change := range map[string]func(*embedded.Config){
		"again":              func(c *embedded.Config) { c.Listen, c.Events = "127.0.0.1:0", "k8s.>" },
		"without a listener": func(*embedded.Config) {},
	} {
		c := config(dir)
		change(&c)
		s := start(t, c)
		if names, _ := consumersOf(t, s.Conn()); len(names) != 1 || names[0] != "own" {
			t.Errorf("%s: there are %q", name, names)
		}
		stop(t, s)
	}
}

// Readers neither see nor use the process's own consumers.
func TestReadersSeeTheirOwn(t *testing.T) {
	s, reader, _ := listening(t, config(t.TempDir()))
	st, err := js(t, s.Conn()).Stream(timeout(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	own, err := st.CreateConsumer(timeout(t), jetstream.ConsumerConfig{Name: "own", AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := js(t, reader).Stream(timeout(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.CreateConsumer(timeout(t), jetstream.ConsumerConfig{Durable: "theirs"}); err != nil {
		t.Fatal(err)
	}
	if names, _ := consumersOf(t, reader); len(names) != 1 || names[0] != "theirs" {
		t.Errorf("a reader sees %q", names)
	}
	if _, err := theirs.Consumer(timeout(t), "own"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("a reader asks about it: %v", err)
	}
	if _, err := theirs.Consumer(timeout(t), "theirs"); err != nil {
		t.Errorf("a reader asks about its own: %v", err)
	}
	for _, next := range []string{"$JS.API.CONSUMER.MSG.NEXT." + stream + ".own", "$JS.INFORMD.next." + stream + ".own"} {
		inbox := reader.NewRespInbox()
		got, err := reader.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.PublishRequest(next, inbox, []byte("5")); err != nil {
			t.Fatal(err)
		}
		fetch(t, reader, 10) // by then the server has seen the pull
		for n, _, _ := got.Pending(); n > 0; n-- {
			if m, err := got.NextMsgWithContext(timeout(t)); !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("a reader got %+v (%v)", m, err)
			}
		}
	}
	batch, err := own.Fetch(10, jetstream.FetchMaxWait(deadline))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range batch.Messages() {
		n++
	}
	if n != 10 || batch.Error() != nil {
		t.Errorf("the process itself got %d of 10 messages (%v)", n, batch.Error())
	}

	// A consumer that is gone is one that is not there.
	if err := st.DeleteConsumer(timeout(t), "theirs"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pull from it to be refused", func() bool {
		_, err := reader.Request("$JS.API.CONSUMER.MSG.NEXT."+stream+".theirs", []byte(`{"batch":1,"no_wait":true}`), time.Second)
		return errors.Is(err, nats.ErrNoResponders)
	})
}
