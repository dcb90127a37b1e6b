package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestSidecar: a NATS client on the same machine reads the embedded journal, and
// cannot change it.
func TestSidecar(t *testing.T) {
	r := newRig(t)
	journal, listen := listeningJournal(t)
	d := newInformd(t, setup{kubeconfig: r.cluster.Kubeconfig(), resources: r.resources("full"), journal: journal})
	d.start()
	d.waitForSync(len(r.kinds))
	r.write(50)
	eventually(t, "stream complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
	d.waitForLive(len(r.kinds))
	waitForRecords(t, listen)
	checkLastStates(t, readJournal(t, listen), d.records())

	refused := make(chan error, 100)
	nc, err := nats.Connect(listen, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "INFORMD")
	if err != nil {
		t.Fatal(err)
	}
	for name, attempt := range changesOf(js, stream) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- attempt(ctx) }()
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: refused with %v", name, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: nobody minds", name)
		}
		cancel()
		if err := <-done; err == nil {
			t.Errorf("%s: done", name)
		}
	}
	checkLastStates(t, readJournal(t, listen), d.records())
	r.write(1)
	eventually(t, "stream complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
}

// changesOf are attempts to change a journal. They end without an answer.
func changesOf(js jetstream.JetStream, stream jetstream.Stream) map[string]func(ctx context.Context) error {
	config := stream.CachedInfo().Config
	config.MaxMsgsPerSubject = 1
	return map[string]func(ctx context.Context) error{
		"publish": func(ctx context.Context) error {
			_, err := js.Publish(ctx, "k8s.e2e.core.configmaps.default.configmap-1", []byte("forged"), jetstream.WithRetryAttempts(0))
			return err
		},
		"purge":            func(ctx context.Context) error { return stream.Purge(ctx) },
		"delete a message": func(ctx context.Context) error { return stream.DeleteMsg(ctx, 1) },
		"delete":           func(ctx context.Context) error { return js.DeleteStream(ctx, "INFORMD") },
		"edit": func(ctx context.Context) error {
			_, err := js.UpdateStream(ctx, config)
			return err
		},
		"create": func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "MINE", Subjects: []string{"mine"}})
			return err
		},
	}
}

// checkLastStates holds a journal against what a sink got: each of its messages is
// one that the sink got, in the same order, and the last of every object is there.
func checkLastStates(t *testing.T, journal, records []record) {
	t.Helper()
	place, last := make(map[string]int), make(map[string]string)
	for i, r := range records {
		place[r.ID] = i
		if !r.control() {
			last[r.Resource+"/"+r.Namespace+"/"+r.Name] = r.ID
		}
	}
	before := -1
	for _, r := range journal {
		at, ok := place[r.ID]
		if !ok || at <= before || records[at].Op != r.Op || string(records[at].Data.Object) != string(r.Data.Object) {
			t.Errorf("the journal has %s %s, which the sink did not get, or not in this place", r.Op, r.ID)
		}
		before = max(before, at)
		if key := r.Resource + "/" + r.Namespace + "/" + r.Name; last[key] == r.ID {
			delete(last, key)
		}
	}
	if len(last) > 0 {
		t.Errorf("the journal has not the last messages of %v", last)
	}
}

// readJournal reads the stream of a journal.
func readJournal(t *testing.T, url string) (records []record) {
	t.Helper()
	for _, m := range readMessages(t, url, "INFORMD") {
		if m.Headers().Get("informd-copy-of") != "" {
			continue // of a deletion, under a subject of its own
		}
		if r := decodeMessage(t, m); r.Op != "state" { // for which no sink here asks
			records = append(records, r)
		}
	}
	return records
}
