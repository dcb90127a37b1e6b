package view

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// of makes an event of a ConfigMap, from a text: "<op> <name> <uid> <revision>
// [o<ordinal>] [r<run>] [e<epoch>]", or "<op> [r<run>]" of a control event.
func of(t *testing.T, text string) *event {
	t.Helper()
	e := &event{key: Key{Cluster: "c", Resource: "configmaps", Namespace: "n"}}
	for word := range strings.FieldsSeq(text) {
		var n uint64
		switch {
		case e.op == "":
			e.op = word
		case scan(word, "r%d", &n):
			e.run = n
		case scan(word, "e%d", &n):
			e.at.Epoch = n
		case scan(word, "o%d", &n):
			e.at.Ordinal = n
		case scan(word, "%d", &n):
			e.at.ResourceVersion = n
		case e.key.Name == "":
			e.key.Name = word
		default:
			e.uid = word
		}
	}
	if e.control() {
		e.target = "core/configmaps"
	}
	return e
}

func scan(word, format string, n *uint64) bool {
	found, err := fmt.Sscanf(word, format, n)
	return found == 1 && err == nil && fmt.Sprintf(format, *n) == word
}

func TestTable(t *testing.T) {
	for name, c := range map[string]struct{ events, want string }{
		"from scratch":       {"begin r1; snapshot a u1 5 r1; snapshot b u2 6 r1; synced r1", "a:u1:5 b:u2:6"},
		"changes":            {"added a u1 5; modified a u1 6; added b u2 7; deleted b u2 8", "a:u1:6"},
		"left and entered":   {"added a u1 5; left a u1 5; entered a u1 5", "a:u1:5"},
		"a name again":       {"added a u1 5; deleted a u1 7; added a u2 8", "a:u2:8"},
		"the other order":    {"added a u1 5; added a u2 8; deleted a u1 7", "a:u2:8"},
		"a rollback":         {"added a u1 5; modified a u1 9; modified a u1 5 e1", "a:u1:5e1"},
		"an older rewind":    {"added a u1 5; modified a u1 9; added a u1 5 r7", "a:u1:9"},
		"rewind of the dead": {"added a u1 5; deleted a u1 9; added a u1 5 r7", ""},
		"rewind of the name": {"added a u1 5; deleted a u1 7; added a u2 8; modified a u1 6 r7; deleted a u1 7 r7; added a u2 8 r7", "a:u2:8"},
		"rewind of the lost": {"added a u1 5; modified b u2 6 r7", "a:u1:5 b:u2:6"},
		"rewind of an end":   {"added a u1 5; left a u1 5; entered a u1 8; left a u1 5 r7", "a:u1:8"},
		"one left again":     {"left a u1 5 o2; entered a u1 5 o3; left a u1 5 o2 r7", "a:u1:5"},
		"one entered again":  {"entered a u1 5 o3; left a u1 5 o4; entered a u1 5 o3 r7", ""},
		"an older end again": {"added a u1 5; deleted a u1 9; left a u1 5 r7; modified a u1 8 r8", ""},
		"a newer end again":  {"left a u1 5; deleted a u1 9 r7; modified a u1 8 r8", ""},
		"an end of another":  {"deleted a u1 9; added a u2 10; left a u1 5 r7; modified a u1 8 r8", "a:u2:10"},
		"back, then again":   {"left a u1 50 e1; begin r1; snapshot a u1 5 r1; synced r1; modified a u1 6 r7", "a:u1:6"},
		"without bounds":     {"added a u1 5 o1; snapshot a u1 5 o2 r7; left a u1 5 o3; snapshot a u1 5 o2 r8", ""},
		"swept":              {"added a u1 5; added b u2 6; begin r7; snapshot a u1 5 r7; synced r7", "a:u1:5"},
		"alive by a change":  {"added a u1 5; added b u2 6; begin r7; modified b u2 8; snapshot a u1 5 r7; synced r7", "a:u1:5 b:u2:8"},
		"another end":        {"added a u1 5; begin r7; synced r8", "a:u1:5"},
		"no beginning":       {"added a u1 5; synced r8", "a:u1:5"},
		"broken off":         {"added a u1 5; begin r7; begin r8; snapshot a u1 5 r8; synced r8", "a:u1:5"},
		"twice begun":        {"added a u1 5; begin r7; snapshot a u1 5 r7; begin r7; synced r7", "a:u1:5"},
		"repeated as whole":  {"begin r7; snapshot a u1 5 r7; synced r7; added b u2 9; begin r7; snapshot a u1 5 r7; synced r7", "a:u1:5 b:u2:9"},
		"within another":     {"added x u9 1; begin r1; snapshot a u1 5 r1; begin r2; snapshot a u1 5 r2; synced r2; snapshot b u2 6 r1; synced r1", "a:u1:5 b:u2:6"},
		"a rewind is no sign of life": {
			"added a u1 5; added b u2 6; begin r7; snapshot a u1 5 r7; added b u2 6 r9; synced r7", "a:u1:5",
		},
		"a lost journal": {
			"begin r1; snapshot a u1 5 r1; snapshot b u2 6 r1; synced r1; begin r2; snapshot a u1 5 r2; synced r2", "a:u1:5",
		},
		"a lost journal forgets the epoch": {
			"added a u1 50; modified a u1 40 e1; begin r2; snapshot a u1 45 r2; synced r2", "a:u1:45",
		},
		"back after a false alarm": {"added a u1 5; deleted a u1 9; added a u1 5", "a:u1:5"},
		"gaps say nothing":         {"added a u1 5; gap; state; modified a u1 9", "a:u1:9"},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable()
			for text := range strings.SplitSeq(c.events, ";") {
				table.apply(of(t, text))
			}
			var got []string
			for key, r := range table.rows {
				one := fmt.Sprintf("%s:%s:%d", key.Name, r.UID, r.At.ResourceVersion)
				if r.At.Epoch > 0 {
					one += fmt.Sprintf("e%d", r.At.Epoch)
				}
				got = append(got, one)
			}
			slices.Sort(got)
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("the table has %q, want %q", text, c.want)
			}
		})
	}
}

// TestSweepSparesOthers: a snapshot says nothing of other resources, namespaces and
// clusters.
func TestSweepSparesOthers(t *testing.T) {
	table := newTable()
	keys := []Key{
		{"c", "", "configmaps", "n", "a"},
		{"c", "", "configmaps", "m", "a"},
		{"c", "apps", "configmaps", "n", "a"},
		{"c", "", "secrets", "n", "a"},
		{"d", "", "configmaps", "n", "a"},
	}
	for _, key := range keys {
		table.apply(&event{op: "added", key: key, uid: fmt.Sprint(key), at: Revision{ResourceVersion: 1}})
	}
	for _, op := range []string{"begin", "synced"} {
		table.apply(&event{op: op, key: Key{Cluster: "c", Resource: "configmaps"}, target: "core/configmaps@n", run: 3})
	}
	if _, there := table.rows[keys[0]]; there || len(table.rows) != len(keys)-1 {
		t.Errorf("left: %v", slices.Collect(maps.Keys(table.rows)))
	}
	if !table.complete[target{"c", "core/configmaps@n"}] || table.complete[target{"c", "core/configmaps"}] {
		t.Error("another target is complete")
	}
}

// TestStaysComplete: snapshots that never end do not make a target incomplete that was complete.
func TestStaysComplete(t *testing.T) {
	table := newTable()
	table.apply(of(t, "begin r1"))
	table.apply(of(t, "synced r1"))
	for i := range maxSnapshots + 1 {
		table.apply(of(t, fmt.Sprintf("begin r%d", i+2)))
	}
	if !table.complete[target{"c", "core/configmaps"}] {
		t.Error("the target is not complete any more")
	}
}

// TestMemoryIsBounded: deletions and snapshots that never end are forgotten after a while.
func TestMemoryIsBounded(t *testing.T) {
	table := newTable()
	for i := range maxDeleted + 100 {
		table.apply(of(t, fmt.Sprintf("deleted a u%d %d", i, i+1)))
		table.apply(of(t, fmt.Sprintf("begin r%d", i+1)))
	}
	if len(table.deleted) != maxDeleted || len(table.order) != maxDeleted || len(table.snapshots[target{"c", "core/configmaps"}]) != maxSnapshots {
		t.Errorf("%d deletions in %d places, %d snapshots", len(table.deleted), len(table.order), len(table.snapshots))
	}
}

func TestDecode(t *testing.T) {
	header := nats.Header{}
	for name, value := range map[string]string{
		"op": "modified", "cluster": "c", "group": "apps", "resource": "deployments", "namespace": "shop", "name": "ü b", "uid": "u",
		"resourceversion": "18446744073709551615", "epoch": "2", "ordinal": "3", "run": "1795170000000",
	} {
		header["ce-"+name] = []string{url.PathEscape(value)}
	}
	got, err := decode(header, []byte(`{"changed":["a"],"object":{"a":1}}`))
	want := Key{"c", "apps", "deployments", "shop", "ü b"}
	if err != nil || got.key != want || got.uid != "u" || got.at != (Revision{2, 1<<64 - 1, 3}) || got.run != 1795170000000 || string(got.object) != `{"a":1}` {
		t.Errorf("%+v, %v", got, err)
	}
	for name, bad := range map[string]nats.Header{
		"no event": {"x": {"y"}}, "bad revision": {"ce-op": {"added"}, "ce-resourceversion": {"x"}}, "bad escape": {"ce-op": {"added"}, "ce-name": {"%"}},
	} {
		if _, err := decode(bad, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
