package delivery_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
	"github.com/informd/informd/test/natsserver"
)

// TestLimitsOfContent: every name and content at the limits of a real API server goes
// through the journal to every sink. The event and the deletion arrive whole, or they are
// dead letters that name the object. No object that is written later misses.
func TestLimitsOfContent(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	server := natsserver.Start(t, natsserver.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	e2e.CreateNamespace(t, client, longNamespace)
	kinds := longKinds()
	for _, k := range kinds {
		k.Install(t, client)
	}
	d := e2e.StartLimited(t, c.Kubeconfig(), server.URL(), limitResources(kinds), 1)
	d.WaitForLive(2 + len(kinds))
	w := newContentWriter(t, c.RESTConfig(), e2e.Directly(t, c))
	rows := limitRows()
	for _, name := range sortedKeys(rows) {
		w.create(name, rows[name])
	}
	e2e.Eventually(t, "what was written later arrives", func() bool { return d.Hook.HasAll(w.after) })
	w.deleteAll()
	e2e.Eventually(t, "what was written at the end arrives", func() bool { return d.Hook.HasAll(w.after) })
	d.WaitForLive(2 + len(kinds))
	if body, code, err := d.Get("/readyz"); code != http.StatusOK {
		t.Errorf("readyz: %d %s %v", code, body, err)
	}
	d.Gather(t, server.URL())
	checkLog(d, t)
	for _, name := range sortedKeys(rows) {
		checkRow(d, t, name, rows[name], w.written[name])
	}
	for sink, e := range d.Endpoints {
		arrivals, mistakes := e.All()
		for _, mistake := range mistakes[:min(len(mistakes), 10)] {
			t.Errorf("%s: %s", sink, mistake)
		}
		for _, a := range w.after {
			if slices.Contains(deadPlace(a), sink) == slices.ContainsFunc(arrivals, func(got e2e.Arrival) bool { return got.Object() == a.Object() }) {
				t.Errorf("%s: %.200q arrives, or is missing", sink, a.Name)
			}
		}
	}
	// A start with an object that no event can carry.
	w.create("too long", rows["name beyond every message"])
	d.Kill()
	d.Start()
	w.behind(roleKind())
	e2e.Eventually(t, "what was written after a restart arrives", func() bool { return d.Hook.HasAll(w.after) })
	d.WaitForLive(2 + len(kinds))
}

// checkRow holds the events of one row to the claim, at each sink.
func checkRow(d *e2e.Limited, t *testing.T, row string, r limitRow, want e2e.Arrival) {
	t.Helper()
	if begin := want.Namespace + "/" + want.Name[:min(500, len(want.Name))]; r.dead == source &&
		!slices.ContainsFunc(d.Dead[source], func(l e2e.Letter) bool { return strings.HasPrefix(l.Letter.Key, begin) }) {
		t.Errorf("%s: the dead letters of the source do not name it", row)
	}
	for sink, e := range d.Endpoints {
		arrivals, _ := e.All()
		var got []string
		for _, a := range arrivals {
			if a.Object() != want.Object() {
				continue
			}
			got = append(got, a.Op)
			if a.UID != want.UID || a.Content != want.Content {
				t.Errorf("%s: %s: %s has not the uid or the content that was written (uid %.100q)", row, sink, a.Op, a.UID)
			}
		}
		if r.dead == source || slices.Contains(strings.Fields(r.dead), sink) || slices.Contains(deadPlace(want), sink) {
			if len(got) > 0 {
				t.Errorf("%s: %s: %q arrive, a dead letter is expected", row, sink, got)
			}
			if r.dead != source {
				checkLetters(d, t, row, sink, want)
			}
			continue
		}
		if !slices.Equal(slices.Compact(got), []string{"added", "deleted"}) {
			t.Errorf("%s: %s: %q arrive", row, sink, got)
		}
	}
}

// checkLetters expects dead letters of the sink about both events of an object.
func checkLetters(d *e2e.Limited, t *testing.T, row, sink string, want e2e.Arrival) {
	t.Helper()
	var ops []string
	for _, l := range d.Dead[sink] {
		if e := l.Letter.Event; e.Name == want.Name && e.Resource == want.Resource && e.Namespace == want.Namespace {
			ops = append(ops, e.Op)
		}
	}
	if !slices.Equal(ops, []string{"added", "deleted"}) {
		t.Errorf("%s: %s: dead letters of %q", row, sink, ops)
	}
}

// checkLog holds the log and the metrics to what they may show, and must.
func checkLog(d *e2e.Limited, t *testing.T) {
	t.Helper()
	metrics, _, err := d.Get("/metrics")
	e2e.Must(t, err)
	log := d.Stderr.String()
	for sink := range d.Endpoints {
		n := len(d.Dead[sink])
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
func limitResources(kinds []e2e.Kind) string {
	return "- {resource: configmaps}\n- {group: rbac.authorization.k8s.io, resource: roles}\n" + e2e.Entries(kinds...)
}

// TestLargeObjects: objects of more than 1 MB go through in their place between the others and
// with every byte, whether they can be compressed or not. A new sink gets them from the journal.
func TestLargeObjects(t *testing.T) {
	const pairs = 4
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	s := e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}", Journal: e2e.LogJournal,
	}
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForSync(1)
	w := e2e.NewWriter(client, e2e.ConfigMapKind(), e2e.NewLedger(), 1)
	large, missing := make(map[string]string), make(map[string]bool)
	var order []string
	for i := range pairs {
		for name, data := range map[string][]byte{
			"plain": []byte(strings.Repeat("0123456789abcdef", 65_000)),
			"noise": e2e.Noise(1_048_000),
		} {
			small := fmt.Sprintf("small-%s-%d", name, i)
			w.Kind.Fields = e2e.ConfigMapKind().Fields
			e2e.Must(t, w.Create(t.Context(), small))
			name = fmt.Sprintf("%s-%d", name, i)
			encoded := base64.StdEncoding.EncodeToString(data) // 1.4 MB
			w.Kind.Fields = func(int) map[string]any { return map[string]any{"binaryData": map[string]any{"b": encoded}} }
			e2e.Must(t, w.Create(t.Context(), name))
			e2e.Must(t, w.Update(t.Context(), small))
			large[name], missing[name] = encoded, true
			order = append(order, small, name, small)
		}
	}
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete([]e2e.Kind{w.Kind}, d.Records(), w.Ledger) })
	e2e.Check(t, w.Kind, d.Records(), w.Ledger, client, e2e.Claim{})
	d.Stop()

	late := filepath.Join(d.Dir, "late.ndjson")
	s.Sinks = fmt.Sprintf("- {name: late, type: file, path: %q}", late)
	d.Configure(s)
	d.Start()
	d.WaitForLive(1)
	var again e2e.EventFile
	for _, r := range again.Read(t, late) {
		if content := binaryData(t, r); content != large[r.Name] {
			t.Errorf("%s in the snapshot of a new sink has not the content that was written", r.Name)
		}
		delete(missing, r.Name)
	}
	if len(missing) > 0 {
		t.Errorf("the new sink's snapshot lacks %v", slices.Sorted(maps.Keys(missing)))
	}

	var names []string
	for _, r := range d.Records() {
		if r.Control() || r.Op == "snapshot" {
			continue
		}
		names = append(names, r.Name)
		if content := binaryData(t, r); content != large[r.Name] {
			t.Errorf("%s has not the content that was written", r.Name)
		}
	}
	if got, want := strings.Join(names, " "), strings.Join(order, " "); got != want {
		t.Errorf("order\ngot  %s\nwant %s", got, want)
	}
}

func binaryData(t *testing.T, r e2e.Record) string {
	t.Helper()
	if r.Control() {
		return ""
	}
	var o struct{ BinaryData map[string]string }
	if err := json.Unmarshal(r.Data.Object, &o); err != nil {
		t.Errorf("%s: %v", r.Name, err)
	}
	return o.BinaryData["b"]
}
