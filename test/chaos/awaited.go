package chaos

import "time"

// state is how an object stands: to etcd, or to a consumer.
type state struct {
	In   bool // it exists and is selected
	RV   uint64
	Gate Hash
	Seen time.Time
}

// awaited is an object of a resource of which not every revision is an event. Of these the
// tracker compares how objects stand.
type awaited struct {
	target    string
	want, got state
	since     time.Time // when the two began to differ; zero: they do not
}

// compare notes whether the two differ.
func (a *awaited) compare(r rule, now time.Time) {
	same := a.want.RV == a.got.RV || r.filters && a.want.Gate == a.got.Gate
	switch {
	case a.want.In == a.got.In && (same || !a.want.In):
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = now
	}
}

func (t *Tracker) awaited(target, uid string) *awaited {
	a := t.standing[uid]
	if a == nil {
		a = &awaited{target: target}
		t.standing[uid] = a
	}
	return a
}

// Await notes how an object is to end up.
func (t *Tracker) Await(o *Object, s state) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.awaited(o.Target, o.UID)
	a.want = s
	a.compare(t.rules[o.Target], s.Seen)
}

// stands notes how an object stands after a delivery.
func (t *Tracker) stands(d *Delivery) {
	a := t.awaited(d.Target, d.UID)
	a.got = state{In: !d.ends(), RV: d.RV, Gate: d.Gate}
	a.compare(t.rules[d.Target], d.At)
}

// drop notes that a target's objects that are not there any more may have no end.
func (t *Tracker) drop(target string) {
	for _, a := range t.standing {
		if a.target == target && !a.want.In {
			a.got.In, a.since = false, time.Time{}
		}
	}
}
