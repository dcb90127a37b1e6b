package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/natsserver"
)

// writesPerKind is how many random changes each kind gets.
const writesPerKind = 200

// TestEveryRevisionOnce: built-ins and custom resources, namespaced and
// cluster-scoped, whole and as metadata, changing at random: the stream of the
// file sink and the one that an independent client reads from JetStream both
// hold every revision once, in order, with unbroken chains and right ends.
func TestEveryRevisionOnce(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	bus := natsserver.Start(t, natsserver.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	kinds := []kind{podKind(), configMapKind(), customKind("gadgets", false), customKind("planets", true)}
	for _, k := range kinds[2:] {
		k.install(t, client)
	}
	l := newLedger()
	writeAll(t, client, kinds, l, 20, 1) // what exists before: snapshots
	l.begin()

	runs := map[string]struct{ mode, journal string }{
		"full":        {"full", logJournal},
		"metadata":    {"metadata", logJournal},
		"full-memory": {"full", ""},
	}
	daemons := make(map[string]*informd)
	for name, run := range runs {
		daemons[name] = newInformd(t, setup{
			kubeconfig: c.Kubeconfig(), journal: run.journal,
			resources: fmt.Sprintf(`
				- {resource: pods, mode: %[1]s}
				- {resource: configmaps, mode: %[1]s, namespaces: [default]}
				- {group: e2e.example.com, resource: gadgets, mode: %[1]s}
				- {group: e2e.example.com, resource: planets, mode: %[1]s}`, run.mode),
			sinks: fmt.Sprintf(`- {name: bus, type: nats, servers: [%q], subjectPrefix: %[2]s, stream: %[2]s, create: {historyPerObject: 0}}`, bus.URL(), name),
		})
		daemons[name].start()
	}
	for _, d := range daemons {
		d.waitForSync(len(kinds))
	}
	writeAll(t, client, kinds, l, writesPerKind, 2)

	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			d := daemons[name]
			eventually(t, "stream complete", func() bool { return complete(kinds, d.records(), l) })
			fromBus := func() []record { return readStream(t, bus.URL(), name) }
			eventually(t, "JetStream complete", func() bool { return complete(kinds, fromBus(), l) })
			for sink, records := range map[string][]record{"file": d.records(), "jetstream": fromBus()} {
				for _, k := range kinds {
					t.Run(sink+" "+k.gvr.Resource, func(t *testing.T) {
						check(t, k, records, l, client, claim{metadataOnly: run.mode == "metadata"})
					})
				}
				if n := count(records, "synced"); n != len(kinds) {
					t.Errorf("%s: %d synced records, want %d", sink, n, len(kinds))
				}
			}
		})
	}
}

func writeAll(t *testing.T, client dynamic.Interface, kinds []kind, l *ledger, n int, seed uint64) {
	t.Helper()
	var wg sync.WaitGroup
	for i, k := range kinds {
		w := newWriter(client, k, l, seed*100+uint64(i))
		w.adopt(t)
		wg.Go(func() {
			if err := w.write(t.Context(), n); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// readStream reads the whole stream of a nats sink.
func readStream(t *testing.T, serverURL, stream string) (records []record) {
	t.Helper()
	for _, m := range readMessages(t, serverURL, stream) {
		r := decodeMessage(t, m)
		if got := m.Headers().Get("Nats-Msg-Id"); got != r.ID {
			t.Errorf("Nats-Msg-Id %s, want %s", got, r.ID)
		}
		records = append(records, r)
	}
	return records
}

// readMessages reads a whole JetStream stream as an independent client would.
func readMessages(t *testing.T, serverURL, stream string) (messages []jetstream.Msg) {
	t.Helper()
	nc, err := nats.Connect(serverURL, nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // the sink is not open yet
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for uint64(len(messages)) < info.State.Msgs {
		batch, err := consumer.Fetch(min(500, int(info.State.Msgs)-len(messages)))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			messages = append(messages, m)
		}
		if err := batch.Error(); err != nil {
			t.Fatal(err)
		}
	}
	return messages
}

// decodeMessage decodes the CloudEvents binary mode from scratch.
func decodeMessage(t *testing.T, m jetstream.Msg) record {
	t.Helper()
	h := func(name string) string {
		value, err := url.PathUnescape(m.Headers().Get("ce-" + name))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	number := func(name string) uint64 {
		n, err := strconv.ParseUint("0"+h(name), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	r := record{
		ID: h("id"), Op: h("op"), Type: h("type"), Group: h("group"), Version: h("version"), Resource: h("resource"), Namespace: h("namespace"), Name: h("name"),
		UID: h("uid"), Kind: h("kind"), ResourceVersion: number("resourceversion"), FromRV: number("fromrv"), ToRV: number("torv"),
		Reason: h("reason"), Recovered: h("recovered"), Trimmed: number("trimmed"),
		PrevResourceVersion: number("prevresourceversion"), Ordinal: number("ordinal"), Run: number("run"), Replay: h("replay") == "true",
	}
	if !r.control() {
		ns := r.Namespace
		if ns == "" {
			ns = "_"
		}
		token := func(s string) string { return strings.NewReplacer(".", "_").Replace(s) }
		want := fmt.Sprintf(".e2e.%s.%s.%s.%s", token(groupOrCore(r.Group)), r.Resource, ns, token(r.Name))
		if !strings.HasSuffix(m.Subject(), want) {
			t.Errorf("subject %s, want …%s", m.Subject(), want)
		}
	}
	if len(m.Data()) > 0 {
		if err := json.Unmarshal(m.Data(), &r.Data); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	return r
}
