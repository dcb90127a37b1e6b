package e2e_test

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
)

// command runs a command of informd that asks the running one, and returns what it
// prints and its exit code.
func (d *informd) command(args ...string) (string, int) {
	d.t.Helper()
	stdout, stderr, code := runInformd(d.t, append(args, "--config", d.config)...)
	return stdout + stderr, code
}

// must is command for one that succeeds.
func (d *informd) must(args ...string) string {
	d.t.Helper()
	output, code := d.command(args...)
	if code != 0 {
		d.t.Errorf("informd %s: exit code %d\n%s", strings.Join(args, " "), code, output)
	}
	return output
}

// letter is a dead letter as the command prints it.
type letter struct {
	Sink   string
	Number uint64
	Letter struct {
		Time, Reason, Key string
		Raw               []byte
		Event             record
	}
}

// letters are the dead letters of a sink.
func (d *informd) letters(sink string) (all []letter) {
	d.t.Helper()
	for line := range strings.Lines(d.must("deadletters", "list", "--sink", sink, "-o", "json")) {
		var l letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			d.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, l)
	}
	return all
}

// tooLarge has a webhook refuse objects of these names for good.
func tooLarge(names ...string) func(record) int {
	return func(r record) int {
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
	r := newRig(t)
	h := startHook(t)
	h.set(tooLarge("refused-1", "refused-2"))
	d := newInformd(t, setup{
		kubeconfig: r.cluster.Kubeconfig(), resources: "- {resource: configmaps, namespaces: [default]}", sinks: h.sink(), journal: logJournal,
	})
	d.start()
	d.waitForSync(1)
	w := newWriter(r.client, configMapKind(), newLedger(), 1)
	for _, object := range []string{"refused-1", "taken", "refused-2"} {
		if err := w.create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	testDeadLetters(t, d, h)
	testStatus(t, d)
	if output := d.must("verify"); !regexp.MustCompile(`(?m)^core/configmaps@default +\d+ +0 +-$`).MatchString(output) {
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

func testDeadLetters(t *testing.T, d *informd, h *hook) {
	t.Helper()
	eventually(t, "two dead letters", func() bool { return len(d.letters("hook")) == 2 })
	letters := d.letters("hook")
	slices.SortFunc(letters, func(a, b letter) int { return strings.Compare(a.Letter.Event.Name, b.Letter.Event.Name) })
	for i, l := range letters {
		if l.Letter.Event.Name != fmt.Sprintf("refused-%d", i+1) || l.Letter.Event.Data.Object == nil || !strings.Contains(l.Letter.Reason, "413") {
			t.Errorf("dead letter %+v", l)
		}
	}
	table := d.must("deadletters", "list")
	for _, l := range letters {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^hook +%d +\S+ +\w+ +\S+/%s +%s +.*413.*$`, l.Number, l.Letter.Event.Name, l.Letter.Event.ID)).MatchString(table) {
			t.Errorf("the table has no line for %s:\n%s", l.Letter.Event.ID, table)
		}
	}
	if output, code := d.command("deadletters", "drop", "--sink", "nobody", "--all", "--yes"); code != 1 || !strings.Contains(output, "(sinks: source, all, hook)") {
		t.Errorf("letters of an unknown sink: exit code %d\n%s", code, output)
	}

	h.set(nil)
	d.waitForLive(1) // an event on another lane may still be on its way
	before := len(h.events(0))
	d.must("deadletters", "redeliver", "--sink", "hook", "--number", fmt.Sprint(letters[0].Number))
	again := h.events(before)
	if len(again) != 1 || !regexp.MustCompile("^"+letters[0].Letter.Event.ID+`:r\d+$`).MatchString(again[0].ID) ||
		!sameJSON(again[0].Data.Object, letters[0].Letter.Event.Data.Object) {
		t.Errorf("replayed %+v", again)
	}
	d.must("deadletters", "drop", "--sink", "hook", "--number", fmt.Sprint(letters[1].Number))
	if left := d.letters("hook"); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if n := len(h.events(before)); n != 1 {
		t.Errorf("%d events after a replay of one letter and a drop of another", n)
	}
}

// testStatus looks at the target, at both sinks and at the journal.
func testStatus(t *testing.T, d *informd) {
	t.Helper()
	d.waitForLive(1)
	tables := d.must("status")
	for _, line := range []string{
		`informd \S+, cluster e2e, up \S+`,
		`core/configmaps@default +v1 +full +live +\d+ +[0-9.]+ +\d+s +-`,
		`all +file +running +0 +0s +\d+ +0 +0 +-`,
		`hook +webhook +running +0 +0s +\d+ +\d+ +0 +.*413.* \(\S+ ago\)`,
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
	output := d.must("status", "-o", "json")
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
func testReplay(t *testing.T, d *informd, h *hook) {
	t.Helper()
	d.waitForLive(1)
	lines, before := len(d.records()), len(h.events(0))
	again := lines - count(d.records(), "begin") - count(d.records(), "synced")
	output := d.must("rewind", "--sink", "hook", "--since", "10m")
	// It counts what the log has: the record that the target is live, which no sink
	// here asks for, too.
	if !strings.Contains(output, fmt.Sprintf("%d events", lines+1)) {
		t.Errorf("rewind says %s, want %d events", output, lines+1)
	}
	eventually(t, "everything again", func() bool { return len(h.events(before)) >= again })
	d.waitForLive(1)
	run := h.events(before)[0].Run
	got := make(map[string]string)
	for _, x := range h.events(before) {
		id, suffix, _ := strings.Cut(x.ID, ":r")
		if x.Run == 0 || x.Run != run || suffix != fmt.Sprint(run) {
			t.Errorf("%s has run %d, want %d, at the end of the id as well", x.ID, x.Run, run)
		}
		got[id] = x.Op + string(x.Data.Object)
	}
	for _, x := range d.records() {
		id, _, _ := strings.Cut(x.ID, ":r")
		if bound := x.Op == "begin" || x.Op == "synced"; !bound && got[id] != x.Op+string(x.Data.Object) {
			t.Errorf("%s came again as %q", x.ID, got[id])
		}
	}
	if n := len(h.events(before)); n != again {
		t.Errorf("%d events came again, want %d", n, again)
	}
	if n := len(d.records()); n != lines {
		t.Errorf("%d new lines in the file", n-lines)
	}
}

// TestNewSinkGetsSnapshot: a sink that is added to the config gets the objects that
// exist, and what follows; the others get nothing again.
func TestNewSinkGetsSnapshot(t *testing.T) {
	r := newRig(t)
	s := r.setup(logJournal)
	d := newInformd(t, s)
	d.start()
	d.waitForSync(len(r.kinds))
	r.write(50)
	r.writeLarge(40)
	eventually(t, "stream complete", func() bool { return complete(r.kinds, d.records(), r.ledger) })
	d.waitForLive(len(r.kinds))
	lines, stored := len(d.records()), streamEnd(t, r.nats.URL(), busStream)
	d.stop()
	h := startHook(t)
	s.sinks += "\n" + h.sink()
	d.configure(s)
	d.start()
	d.waitForLive(len(r.kinds))
	if n := len(d.records()) - lines; n != 0 {
		t.Errorf("%d new lines in the file", n)
	}
	if n := streamEnd(t, r.nats.URL(), busStream) - stored; n != 0 {
		t.Errorf("%d new messages in JetStream", n)
	}
	states := make(map[string]record)
	for _, x := range d.records() {
		switch {
		case x.control():
		case x.Op == "deleted":
			delete(states, x.UID)
		default:
			states[x.UID] = x
		}
	}
	begun, synced, run := 0, 0, h.events(0)[0].Run
	for i, x := range h.events(0) {
		if x.Run == 0 || x.Run != run {
			t.Errorf("event %d of the snapshot has run %d, want %d", i, x.Run, run)
		}
		switch want := states[x.UID]; {
		case x.Op == "begin":
			begun++
		case x.Op == "synced":
			synced++
		case x.Op != "snapshot" || x.ResourceVersion != want.ResourceVersion || string(x.Data.Object) != string(want.Data.Object) || synced > 0 || begun != len(r.kinds):
			t.Errorf("event %d of the snapshot is %s %s, want the state %s", i, x.Op, x.ID, want.ID)
		}
		delete(states, x.UID)
	}
	if len(states) > 0 || synced != len(r.kinds) {
		t.Errorf("the snapshot lacks %d objects and has %d synced records", len(states), synced)
	}
	r.write(10)
	r.finish(claim{}, d.records)
	d.waitForLive(len(r.kinds))
	if got, want := len(h.events(0))-begun-synced, len(d.records())-lines; got < want {
		t.Errorf("%d events for the new sink, want at least %d", got, want)
	}
}

// writeLarge makes n ConfigMaps that are more than one read of a journal takes.
func (r *rig) writeLarge(n int) {
	r.t.Helper()
	k := configMapKind()
	k.fields = func(int) map[string]any {
		return map[string]any{"data": map[string]any{"large": strings.Repeat("configuration = \"value\"\n", 4000)}}
	}
	w := newWriter(r.client, k, r.ledger, 0)
	for i := range n {
		if err := w.create(r.t.Context(), fmt.Sprintf("large-%d", i)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestSinkThatWasDown: a sink that was down gets each event once it is back, more of an object than
// historyPerObject too, and the deletions of objects whose name was used again before that.
func TestSinkThatWasDown(t *testing.T) {
	const history, objects, changes, returns = 4, 20, 15, 5
	c := cluster.Start(t, cluster.Options{})
	client := dynamic.NewForConfigOrDie(fast(c.RESTConfig()))
	h := startHook(t)
	d := newInformd(t, setup{
		kubeconfig: c.Kubeconfig(), resources: "- {resource: configmaps, namespaces: [default]}", sinks: h.sink(),
		journal: fmt.Sprintf("%s, historyPerObject: %d", logJournal, history),
	})
	d.start()
	d.waitForSync(1)
	d.waitForLive(1)
	lines, taken := len(d.records()), len(h.events(0))
	h.set(func(record) int { return http.StatusServiceUnavailable })
	w := newWriter(client, configMapKind(), newLedger(), 1)
	live := func(name string) {
		t.Helper()
		if err := w.create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		for range changes {
			if err := w.update(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range objects {
		name := fmt.Sprintf("object-%d", i)
		live(name)
		if i%2 == 0 {
			if err := w.delete(t.Context(), name, w.alive[name]); err != nil {
				t.Fatal(err)
			}
		}
		if i < 2*returns && i%2 == 0 {
			live(name)
		}
	}
	eventually(t, "file complete", func() bool { return complete([]kind{w.kind}, d.records(), w.ledger) })
	d.kill() // with the newest events that it has in memory
	d.start()
	h.set(nil)
	d.waitForLive(1)

	all, _ := once(t, d.records())
	events := all[lines:]
	got := h.events(taken)
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
	if len(got) != len(events) || count(got, "gap") != 0 {
		t.Errorf("%d of %d events were delivered, %d gaps", len(got), len(events), count(got, "gap"))
	}
	if n := count(got, "deleted"); n != objects/2 {
		t.Errorf("%d deletions, want %d", n, objects/2)
	}
	for _, x := range events {
		if final := x.Op == "deleted" || x.Ordinal == changes+1 && string(w.alive[x.Name]) == x.UID; final && last[x.UID] != x.ID {
			t.Errorf("the last event of %s is %s, the last that the sink got %q", x.Name, x.ID, last[x.UID])
		}
	}
}
