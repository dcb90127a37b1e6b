package delivery_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// deadLetters are the dead letters of a sink.
func deadLetters(d *e2e.Informd, sink string) (all []e2e.Letter) {
	d.T.Helper()
	for line := range strings.Lines(d.Must("deadletters", "list", "--sink", sink, "-o", "json")) {
		var l e2e.Letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			d.T.Fatalf("%v: %s", err, line)
		}
		all = append(all, l)
	}
	return all
}

// tooLarge has a webhook refuse objects of these names for good.
func tooLarge(names ...string) func(e2e.Record) int {
	return func(r e2e.Record) int {
		if slices.Contains(names, r.Name) {
			return http.StatusRequestEntityTooLarge
		}
		return 0
	}
}

// TestOperator: what an operator does to a running informd: look at dead letters, deliver
// them again, drop them, deliver all that the journal keeps again, and compare it with the
// cluster.
func TestOperator(t *testing.T) {
	r := e2e.NewRig(t)
	h := e2e.StartHook(t)
	h.Set(tooLarge("refused-1", "refused-2"))
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: r.Cluster.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}", Sinks: h.Sink(), Journal: e2e.LogJournal,
	})
	d.Start()
	d.WaitForSync(1)
	w := e2e.NewWriter(r.Client, e2e.ConfigMapKind(), e2e.NewLedger(), 1)
	for _, object := range []string{"refused-1", "taken", "refused-2"} {
		e2e.Must(t, w.Create(t.Context(), object))
	}
	testDeadLetters(t, d, h)
	testStatus(t, d)
	if output := d.Must("verify"); !regexp.MustCompile(`(?m)^core/configmaps@default +\d+ +0 +-$`).MatchString(output) {
		t.Errorf("verify says\n%s", output)
	}
	testReplay(t, d, h)
}

// sameJSON reports whether two texts have the same content: JSON for people has control
// characters escaped.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func testDeadLetters(t *testing.T, d *e2e.Informd, h *e2e.Hook) {
	t.Helper()
	e2e.Eventually(t, "two dead letters", func() bool { return len(deadLetters(d, "hook")) == 2 })
	letters := deadLetters(d, "hook")
	slices.SortFunc(letters, func(a, b e2e.Letter) int { return strings.Compare(a.Letter.Event.Name, b.Letter.Event.Name) })
	for i, l := range letters {
		if l.Letter.Event.Name != fmt.Sprintf("refused-%d", i+1) || l.Letter.Event.Data.Object == nil || !strings.Contains(l.Letter.Reason, "413") {
			t.Errorf("dead letter %+v", l)
		}
	}
	table := d.Must("deadletters", "list")
	for _, l := range letters {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^hook +%d +\S+ +\w+ +\S+/%s +%s +.*413.*$`, l.Number, l.Letter.Event.Name, l.Letter.Event.ID)).MatchString(table) {
			t.Errorf("the table has no line for %s:\n%s", l.Letter.Event.ID, table)
		}
	}
	if output, code := d.Command("deadletters", "drop", "--sink", "nobody", "--all", "--yes"); code != 1 || !strings.Contains(output, "(sinks: source, all, hook)") {
		t.Errorf("letters of an unknown sink: exit code %d\n%s", code, output)
	}

	h.Set(nil)
	d.WaitForLive(1) // an event on another lane may still be on its way
	before := len(h.Events(0))
	d.Must("deadletters", "redeliver", "--sink", "hook", "--number", fmt.Sprint(letters[0].Number))
	again := h.Events(before)
	if len(again) != 1 || !regexp.MustCompile("^"+letters[0].Letter.Event.ID+`:r\d+$`).MatchString(again[0].ID) ||
		!sameJSON(again[0].Data.Object, letters[0].Letter.Event.Data.Object) {
		t.Errorf("replayed %+v", again)
	}
	d.Must("deadletters", "drop", "--sink", "hook", "--number", fmt.Sprint(letters[1].Number))
	if left := deadLetters(d, "hook"); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if n := len(h.Events(before)); n != 1 {
		t.Errorf("%d events after a replay of one letter and a drop of another", n)
	}
}

// testStatus looks at the target, at both sinks and at the journal.
func testStatus(t *testing.T, d *e2e.Informd) {
	t.Helper()
	d.WaitForLive(1)
	tables := d.Must("status")
	for _, line := range []string{
		`informd \S+, cluster e2e, up \S+`,
		`core/configmaps@default +v1 +full +live +\d+ +[0-9.]+ +\d+s +-`,
		`all +file +running +0 +0s +\d+ +0 +0 +-`,
		`hook +webhook +running +0 +0s +\d+ +\d+ +0 +-`, // it has delivered since
		`log +\d+ +[0-9.]+\S*B +[0-9.]+\S*B +0 +-`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(tables) {
			t.Errorf("no line %s in\n%s", line, tables)
		}
	}
	var document struct {
		Targets []struct {
			State                            string
			Objects, Events, EventsPerSecond float64
		}
	}
	output := d.Must("status", "-o", "json")
	if err := json.Unmarshal([]byte(output), &document); err != nil || len(document.Targets) != 1 {
		t.Fatalf("%v: %s", err, output)
	}
	// Every object of the namespace has come, and the record behind the snapshot.
	if x := document.Targets[0]; x.State != "live" || x.Events <= x.Objects || x.EventsPerSecond <= 0 {
		t.Errorf("target %+v", x)
	}
}

// testReplay delivers everything again but the bounds of snapshots: in the same order, with
// a run of its own.
func testReplay(t *testing.T, d *e2e.Informd, h *e2e.Hook) {
	t.Helper()
	d.WaitForLive(1)
	lines, before := len(d.Records()), len(h.Events(0))
	again := lines - e2e.Count(d.Records(), "begin") - e2e.Count(d.Records(), "synced")
	output := d.Must("rewind", "--sink", "hook", "--since", "10m")
	// It counts what the log has: the record that the target is live, which no sink
	// here asks for, too.
	if !strings.Contains(output, fmt.Sprintf("%d events", lines+1)) {
		t.Errorf("rewind says %s, want %d events", output, lines+1)
	}
	e2e.Eventually(t, "everything again", func() bool { return len(h.Events(before)) >= again })
	d.WaitForLive(1)
	run := h.Events(before)[0].Run
	got := make(map[string]string)
	for _, x := range h.Events(before) {
		id, suffix, _ := strings.Cut(x.ID, ":r")
		if x.Run == 0 || x.Run != run || suffix != fmt.Sprint(run) {
			t.Errorf("%s has run %d, want %d, at the end of the id as well", x.ID, x.Run, run)
		}
		got[id] = x.Op + string(x.Data.Object)
	}
	for _, x := range d.Records() {
		id, _, _ := strings.Cut(x.ID, ":r")
		if bound := x.Op == "begin" || x.Op == "synced"; !bound && got[id] != x.Op+string(x.Data.Object) {
			t.Errorf("%s came again as %q", x.ID, got[id])
		}
	}
	if n := len(h.Events(before)); n != again {
		t.Errorf("%d events came again, want %d", n, again)
	}
	if n := len(d.Records()); n != lines {
		t.Errorf("%d new lines in the file", n-lines)
	}
}

// TestNewSinkGetsSnapshot: a sink that is added to the config gets the objects that
// exist, and what follows; the others get nothing again.
func TestNewSinkGetsSnapshot(t *testing.T) {
	r := e2e.NewRig(t)
	s := r.Setup(e2e.LogJournal)
	d := e2e.NewInformd(t, s)
	d.Start()
	d.WaitForSync(len(r.Kinds))
	r.Write(50)
	e2e.Eventually(t, "stream complete", func() bool { return e2e.Complete(r.Kinds, d.Records(), r.Ledger) })
	d.WaitForLive(len(r.Kinds))
	lines, stored := len(d.Records()), e2e.StreamEnd(t, r.Nats.URL(), e2e.BusStream)
	d.Stop()
	h := e2e.StartHook(t)
	s.Sinks += "\n" + h.Sink()
	d.Configure(s)
	d.Start()
	d.WaitForLive(len(r.Kinds))
	if n := len(d.Records()) - lines; n != 0 {
		t.Errorf("%d new lines in the file", n)
	}
	if n := e2e.StreamEnd(t, r.Nats.URL(), e2e.BusStream) - stored; n != 0 {
		t.Errorf("%d new messages in JetStream", n)
	}
	states := make(map[string]e2e.Record)
	for _, x := range d.Records() {
		switch {
		case x.Control():
		case x.Op == "deleted":
			delete(states, x.UID)
		default:
			states[x.UID] = x
		}
	}
	begun, synced, run := 0, 0, h.Events(0)[0].Run
	for i, x := range h.Events(0) {
		if x.Run == 0 || x.Run != run {
			t.Errorf("event %d of the snapshot has run %d, want %d", i, x.Run, run)
		}
		switch want := states[x.UID]; {
		case x.Op == "begin":
			begun++
		case x.Op == "synced":
			synced++
		case x.Op != "snapshot" || x.ResourceVersion != want.ResourceVersion || string(x.Data.Object) != string(want.Data.Object) || synced > 0 || begun != len(r.Kinds):
			t.Errorf("event %d of the snapshot is %s %s, want the state %s", i, x.Op, x.ID, want.ID)
		}
		delete(states, x.UID)
	}
	if len(states) > 0 || synced != len(r.Kinds) {
		t.Errorf("the snapshot lacks %d objects and has %d synced records", len(states), synced)
	}
	r.Write(10)
	r.Finish(e2e.Claim{}, d.Records)
	d.WaitForLive(len(r.Kinds))
	if got, want := len(h.Events(0))-begun-synced, len(d.Records())-lines; got < want {
		t.Errorf("%d events for the new sink, want at least %d", got, want)
	}
}

// TestSinkThatWasDown: a sink that was down gets each event once it is back, more of an object than
// historyPerObject too, and the deletions of objects whose name was used again before that.
func TestSinkThatWasDown(t *testing.T) {
	const history, objects, changes, returns = 4, 20, 15, 5
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig()))
	h := e2e.StartHook(t)
	d := e2e.NewInformd(t, e2e.Setup{
		Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}", Sinks: h.Sink(),
		Journal: fmt.Sprintf("%s, historyPerObject: %d", e2e.LogJournal, history),
	})
	d.Start()
	d.WaitForSync(1)
	d.WaitForLive(1)
	lines, taken := len(d.Records()), len(h.Events(0))
	h.Set(func(e2e.Record) int { return http.StatusServiceUnavailable })
	w := e2e.NewWriter(client, e2e.ConfigMapKind(), e2e.NewLedger(), 1)
	live := func(name string) {
		t.Helper()
		e2e.Must(t, w.Create(t.Context(), name))
		for range changes {
			e2e.Must(t, w.Update(t.Context(), name))
		}
	}
	for i := range objects {
		name := fmt.Sprintf("object-%d", i)
		live(name)
		if i%2 == 0 {
			e2e.Must(t, w.Delete(t.Context(), name, w.Alive[name]))
		}
		if i < 2*returns && i%2 == 0 {
			live(name)
		}
	}
	e2e.Eventually(t, "file complete", func() bool { return e2e.Complete([]e2e.Kind{w.Kind}, d.Records(), w.Ledger) })
	d.Kill() // with the newest events that it has in memory
	d.Start()
	h.Set(nil)
	d.WaitForLive(1)

	all, _ := e2e.Once(t, d.Records())
	events := all[lines:]
	got := h.Events(taken)
	last, ids, alive := make(map[string]string), make(map[string]bool), make(map[string]string)
	for _, x := range got {
		if ids[x.ID] {
			t.Errorf("%s came twice", x.ID)
		}
		ids[x.ID] = true
		last[x.UID] = x.ID
		if uid := alive[x.Name]; uid != "" && uid != x.UID {
			t.Errorf("%s comes before the deletion of %s", x.ID, uid)
		}
		if alive[x.Name] = x.UID; x.Op == "deleted" {
			alive[x.Name] = ""
		}
	}
	if len(got) != len(events) || e2e.Count(got, "gap") != 0 {
		t.Errorf("%d of %d events were delivered, %d gaps", len(got), len(events), e2e.Count(got, "gap"))
	}
	if n := e2e.Count(got, "deleted"); n != objects/2 {
		t.Errorf("%d deletions, want %d", n, objects/2)
	}
	for _, x := range events {
		if final := x.Op == "deleted" || x.Ordinal == changes+1 && string(w.Alive[x.Name]) == x.UID; final && last[x.UID] != x.ID {
			t.Errorf("the last event of %s is %s, the last that the sink got %q", x.Name, x.ID, last[x.UID])
		}
	}
}
