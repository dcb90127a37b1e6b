package sinktest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
)

const (
	sampleCluster = "test"
	// sampleObjects is how many objects the events of Events are about.
	sampleObjects = 7
)

// kind is a resource that the samples are about.
type kind struct {
	group, version, resource, kind string
	namespaced                     bool
}

func kinds() []kind {
	return []kind{
		{"apps", "v1", "deployments", "Deployment", true},
		{"", "v1", "pods", "Pod", true},
		{"", "v1", "nodes", "Node", false},
		{"shop.example.com", "v1alpha1", "orders", "Order", true},
	}
}

// Events returns n events of several objects of several resources, each with a
// history that makes sense: a first event, modifications, some deletions and
// re-creations. Ids are unique and the result is the same for the same n.
func Events(n int) []event.Event { return eventsAbout("", n) }

// eventsAbout is Events about objects whose names begin with prefix.
func eventsAbout(prefix string, n int) []event.Event {
	type life struct {
		uid     string
		prev    uint64
		ordinal uint64
	}
	lives := make([]life, sampleObjects)
	events := make([]event.Event, 0, n)
	for i := range n {
		which := i * 5 % sampleObjects // 5 and 7 have no common divisor: every object in turn
		l, rv := &lives[which], uint64(1000+i)
		if l.uid == "" {
			l.uid = fmt.Sprintf("uid-%s%d-%d", prefix, which, rv)
		}
		op := event.Modified
		switch {
		case l.ordinal == 0 && i < sampleObjects:
			op = event.Snapshot
		case l.ordinal == 0:
			op = event.Added
		case l.ordinal == 4 && which%2 == 0:
			op = event.Deleted
		}
		e := object(kinds()[which%len(kinds())], op, fmt.Sprintf("%sobject-%d", prefix, which), l.uid, rv)
		l.ordinal++
		e.PrevResourceVersion, e.Ordinal = l.prev, l.ordinal
		l.prev = rv
		if op == event.Deleted {
			*l = life{}
		}
		events = append(events, e)
	}
	return events
}

// AllOps returns events of every operation and shape that there is, deletions
// with and without an object among them.
func AllOps() []event.Event {
	of := func(op event.Op, name string, rv uint64) event.Event {
		return object(kinds()[0], op, name, "uid-"+name, rv)
	}
	modified := of(event.Modified, "web", 102)
	modified.PrevResourceVersion, modified.Ordinal, modified.Replay = 101, 2, true
	final := of(event.Deleted, "web", 103)
	final.PrevResourceVersion, final.Ordinal = 102, 3
	lastKnown := of(event.Deleted, "db", 104)
	lastKnown.Data = form.CloseDeletedData(append(form.OpenData(nil), lastKnown.Object()...), false)
	lastKnown.Replay = true
	identity := of(event.Deleted, "cache", 105)
	identity.Data, identity.Replay = form.IdentityData(), true
	left := of(event.Left, "queue", 106)
	left.ID = form.SelectionID(left.UID, 106, event.Left, 106, 0)
	entered := of(event.Entered, "queue", 107)
	entered.ID = form.SelectionID(entered.UID, 107, event.Entered, 107, 0)
	return []event.Event{
		of(event.Snapshot, "old", 100),
		control(event.Synced, 100),
		of(event.Added, "web", 101),
		modified, final, lastKnown, identity, left, entered,
		control(event.Gap, 108),
		object(kinds()[2], event.Modified, "node-1", "uid-node-1", 1<<63+1), // beyond any signed number
	}
}

// Hostile returns events about objects whose names and labels try to break out
// of lines, headers, subjects, paths and terminals.
func Hostile() []event.Event {
	names := []string{
		"line\nbreak", "carriage\r\nce-id: forged", "tab\ttab", `quote"quote`, `back\slash`, "..", "../../etc/passwd",
		"*", ">", "a.b.*.>", "system:node:x", "with space", " ", "percent%41%zz", "under_score", "naïve-ünï-日本-🚀",
		"\x1b[31mred\x1b[0m", "\x1b]0;title\a", "\u202Eright-to-left", "\u2028separator", "nul\x00byte", "del\x7f", "\u0085next",
		strings.Repeat("long", 63), `{"op":"deleted"}`, "'; DROP TABLE events; --", "${env:HOME}", "$(reboot)",
	}
	events := make([]event.Event, len(names))
	for i, name := range names {
		events[i] = object(kinds()[3], event.Added, name, fmt.Sprintf("uid-hostile-%d", i), uint64(2000+i))
	}
	return events
}

// Big returns n events about one object each, with a data of a little more than
// size bytes.
func Big(n, size int) []event.Event {
	events := make([]event.Event, n)
	for i := range events {
		e := object(kinds()[1], event.Added, fmt.Sprintf("big-%d", i), fmt.Sprintf("uid-big-%d", i), uint64(3000+i))
		// Not the same everywhere: what goes missing must show.
		var filler strings.Builder
		for filler.Len() < size {
			fmt.Fprintf(&filler, "%d/%d %s ", i, filler.Len(), strings.Repeat("-", 1000))
		}
		e.Data = form.CloseData(append(form.OpenData(nil), `{"filler":"`+filler.String()+`"}`...))
		events[i] = e
	}
	return events
}

// object makes an event with an object that bears the name.
func object(k kind, op event.Op, name, uid string, rv uint64) event.Event {
	e := event.Event{
		ID: form.ObjectID(uid, rv, 0), Op: op, Time: sampleTime(rv), Cluster: sampleCluster,
		Target: event.GroupOrCore(k.group) + "/" + k.resource,
		Group:  k.group, Version: k.version, Resource: k.resource, Kind: k.kind,
		Name: name, UID: uid, ResourceVersion: rv, Ordinal: 1,
	}
	if k.namespaced {
		e.Namespace = "shop"
	}
	quoted, _ := json.Marshal(name) // a string always can be
	e.Data = fmt.Appendf(form.OpenData(nil), `{"metadata":{"name":%s,"uid":%q,"resourceVersion":"%d"},"spec":{"replicas":%d}}`,
		quoted, uid, rv, rv%5)
	if op == event.Deleted {
		e.ID = form.DeletedID(uid, 0)
		e.Data = form.CloseDeletedData(e.Data, true)
	} else {
		e.Data = form.CloseData(e.Data)
	}
	return e
}

// control makes a control event of the target apps/deployments.
func control(op event.Op, rv uint64) event.Event {
	k := kinds()[0]
	e := event.Event{
		Op: op, Time: sampleTime(rv), Cluster: sampleCluster, Target: k.group + "/" + k.resource,
		Group: k.group, Version: k.version, Resource: k.resource, Kind: k.kind, ResourceVersion: rv,
	}
	if op == event.Gap {
		e.Gap = &event.GapInfo{From: rv - 1, To: rv, Reason: "expired", Recovered: event.RecoveredPartial}
		e.ID = form.GapID(e.Target, e.Gap.From, e.Gap.To, 0)
		return e
	}
	e.SetBound(op, uint64(e.Time.UnixMilli()), rv)
	return e
}

func sampleTime(rv uint64) time.Time {
	start := time.Date(2026, 11, 20, 10, 0, 0, 123456000, time.UTC)
	return start.Add(time.Duration(rv%100000) * time.Millisecond)
}
