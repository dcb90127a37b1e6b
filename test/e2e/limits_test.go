package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/natsserver"
)

// TestLimitsOfContent: every name and content at the limits of a real API server goes
// through the journal to every sink. The event and the deletion arrive whole, or they are
// dead letters that name the object. No object that is written later misses.
func TestLimitsOfContent(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	server := natsserver.Start(t, natsserver.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	createNamespace(t, client, longNamespace)
	kinds := longKinds()
	for _, k := range kinds {
		k.install(t, client)
	}
	d := startLimited(t, c.Kubeconfig(), server.URL(), limitResources(kinds), 1)
	d.waitForLive(2 + len(kinds))
	w := newContentWriter(t, c.RESTConfig(), directly(t, c))
	rows := limitRows()
	for _, name := range sortedKeys(rows) {
		w.create(name, rows[name])
	}
	eventually(t, "what was written later arrives", func() bool { return d.hook.hasAll(w.after) })
	w.deleteAll()
	eventually(t, "what was written at the end arrives", func() bool { return d.hook.hasAll(w.after) })
	d.waitForLive(2 + len(kinds))
	if body, code, err := d.get("/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d %s %v", code, body, err)
	}
	d.gather(t, server.URL())
	d.checkLog(t)
	for _, name := range sortedKeys(rows) {
		d.checkRow(t, name, rows[name], w.written[name])
	}
	for sink, e := range d.endpoints {
		arrivals, mistakes := e.all()
		for _, mistake := range mistakes[:min(len(mistakes), 10)] {
			t.Errorf("%s: %s", sink, mistake)
		}
		for _, a := range w.after {
			if slices.Contains(deadPlace(a), sink) == slices.ContainsFunc(arrivals, func(got arrival) bool { return got.object() == a.object() }) {
				t.Errorf("%s: %.200q arrives, or is missing", sink, a.Name)
			}
		}
	}
}

// limited is an informd with a sink of every type.
type limited struct {
	*informd
	endpoints map[string]*endpoint
	hook      *endpoint
	dead      map[string][]letter // by sink; the source is one
}

// startLimited starts an informd with a sink of every type.
func startLimited(t *testing.T, kubeconfig, server, resources string, batch int) *limited {
	t.Helper()
	d := &limited{hook: &endpoint{}, endpoints: make(map[string]*endpoint)}
	for _, sink := range []string{"all", "screen", "bus", "core", "headers", "log"} {
		d.endpoints[sink] = &endpoint{}
	}
	d.endpoints["hook"] = d.hook
	broker := startBroker(t, func(key string, headers map[string][]byte, value []byte) {
		if value == nil {
			return // a tombstone
		}
		a, mistakes := fromAttributes(func(name string) string { return string(headers["ce_"+name]) }, value)
		if want := "e2e/" + string(headers["ce_subject"]); key != want {
			mistakes = append(mistakes, fmt.Sprintf("key %.200q, want %.200q", key, want))
		}
		d.endpoints["log"].add(a, mistakes...)
	})
	d.endpoints["core"].subscribe(t, server, "core")
	hook := serveHTTP(t, func(_ http.Header, body []byte) { d.hook.addBody(body) })
	headers := serveHTTP(t, func(header http.Header, body []byte) {
		a, mistakes := fromHeaders(header, header.Get, body)
		d.endpoints["headers"].add(a, mistakes...)
	})
	secret := writeFile(t, "secret", "whsec_bWFkZSBmb3IgdGhlIHRlc3RzIG9mIGluZm9ybWQ=\n")
	d.informd = newInformd(t, setup{kubeconfig: kubeconfig, resources: resources, journal: logJournal, sinks: fmt.Sprintf(`
			- {name: screen, type: stdout}
			- {name: bus, type: nats, servers: [%[1]q], subjectPrefix: bus, stream: BUS, create: {historyPerObject: 0}}
			- {name: core, type: nats, jetstream: false, servers: [%[1]q], subjectPrefix: core}
			- {name: hook, type: webhook, url: %[2]q, batch: %[6]d, timeout: 60s}
			- {name: headers, type: webhook, url: %[3]q, format: binary, signing: {keyFile: %[4]q}, timeout: 60s}
			- {name: log, type: kafka, servers: [%[5]q], topic: "e2e.{group}.{resource}", create: {partitions: 1}}`,
		server, hook, headers, secret, broker, batch)})
	d.start()
	return d
}

// gather reads what the sinks have that keep it themselves, and the dead letters.
func (d *limited) gather(t *testing.T, server string) {
	t.Helper()
	d.dead = make(map[string][]letter)
	for line := range strings.Lines(d.must("deadletters", "list", "-o", "json")) {
		var l letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %.300s", err, line)
		}
		d.dead[l.Sink] = append(d.dead[l.Sink], l)
	}
	d.endpoints["all"].readLines(t, d.eventsPath())
	d.endpoints["screen"].readFrom(t, strings.NewReader(d.stdout.String()))
	for _, m := range readMessages(t, server, "BUS") {
		d.endpoints["bus"].addMessage(m.Subject(), m.Headers(), m.Data())
	}
}

// checkRow holds the events of one row to the claim, at each sink.
func (d *limited) checkRow(t *testing.T, row string, r limitRow, want arrival) {
	t.Helper()
	if begin := want.Namespace + "/" + want.Name[:min(500, len(want.Name))]; r.dead == source &&
		!slices.ContainsFunc(d.dead[source], func(l letter) bool { return strings.HasPrefix(l.Letter.Key, begin) }) {
		t.Errorf("%s: the dead letters of the source do not name it", row)
	}
	for sink, e := range d.endpoints {
		arrivals, _ := e.all()
		var got []string
		for _, a := range arrivals {
			if a.object() != want.object() {
				continue
			}
			got = append(got, a.Op)
			if a.UID != want.UID || a.content != want.content {
				t.Errorf("%s: %s: %s has not the uid or the content that was written (uid %.100q)", row, sink, a.Op, a.UID)
			}
		}
		if r.dead == source || slices.Contains(strings.Fields(r.dead), sink) || slices.Contains(deadPlace(want), sink) {
			if len(got) > 0 {
				t.Errorf("%s: %s: %q arrive, a dead letter is expected", row, sink, got)
			}
			if r.dead != source {
				d.checkLetters(t, row, sink, want)
			}
			continue
		}
		if !slices.Equal(slices.Compact(got), []string{"added", "deleted"}) {
			t.Errorf("%s: %s: %q arrive", row, sink, got)
		}
	}
}

// checkLetters expects dead letters of the sink about both events of an object.
func (d *limited) checkLetters(t *testing.T, row, sink string, want arrival) {
	t.Helper()
	var ops []string
	for _, l := range d.dead[sink] {
		if e := l.Letter.Event; e.Name == want.Name && e.Resource == want.Resource && e.Namespace == want.Namespace {
			ops = append(ops, e.Op)
		}
	}
	if !slices.Equal(ops, []string{"added", "deleted"}) {
		t.Errorf("%s: %s: dead letters of %q", row, sink, ops)
	}
}

// checkLog holds the log and the metrics to what they may show, and must.
func (d *limited) checkLog(t *testing.T) {
	t.Helper()
	metrics, _, err := d.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	log := d.stderr.String()
	for sink := range d.endpoints {
		n := len(d.dead[sink])
		if want := fmt.Sprintf("informd_sink_events_total{result=\"dead_letter\",sink=%q} %d\n", sink, n); !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics have no line %s", want)
		}
		if n > 0 && !strings.Contains(log, "sink="+sink) {
			t.Errorf("the log does not name %s", sink)
		}
	}
	if !strings.Contains(log, "object rejected; stored as a dead letter") {
		t.Error("the log does not name an object of the source's dead letters")
	}
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > 8<<10 {
			t.Errorf("a line of the log has %d bytes: %.300q", len(line), line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("a line of the log has control characters: %.300q", line)
		}
	}
}

// limitResources are the resources of the rows.
func limitResources(kinds []kind) string {
	return "- {resource: configmaps}\n- {group: rbac.authorization.k8s.io, resource: roles}\n" + entries(kinds...)
}

// addBody adds an event, or a batch of them.
func (e *endpoint) addBody(body []byte) {
	events := []json.RawMessage{body}
	if bytes.HasPrefix(body, []byte("[")) {
		if err := json.Unmarshal(body, &events); err != nil {
			e.add(arrival{}, err.Error())
		}
	}
	for _, event := range events {
		a, mistakes := fromJSON(event)
		e.add(a, mistakes...)
	}
}

// hasAll reports whether all of these have arrived.
func (e *endpoint) hasAll(want []arrival) bool {
	arrivals, _ := e.all()
	names := make(map[string]bool)
	for _, a := range arrivals {
		names[a.object()] = true
	}
	return !slices.ContainsFunc(want, func(a arrival) bool { return !names[a.object()] })
}

// restClient is the HTTP client of a cluster's administrator.
func restClient(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}
