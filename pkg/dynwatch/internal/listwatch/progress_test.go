package listwatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// TestBookmarksThatDoNotMove: one that is behind another watch has the head asked for; one that
// is behind the head long after that proves that the watch is stuck.
func TestBookmarksThatDoNotMove(t *testing.T) {
	const lag = 15 * time.Second
	for name, test := range map[string]struct {
		furthest, head uint64
		then           func(p *listwatch.Progress)
		due, late      bool
	}{
		"stuck":                     {furthest: 15, head: 20, due: true, late: true},
		"nothing happens":           {furthest: 10, head: 10},
		"only in this resource":     {furthest: 10, head: 20, late: true},
		"the other in another etcd": {furthest: 15, head: 14, due: true, late: true},
		"at the head":               {furthest: 15, head: 10, due: true},
		"moved":                     {furthest: 15, head: 20, due: true, then: func(p *listwatch.Progress) { p.Tick(20, time.Minute) }},
		"opened again":              {furthest: 15, head: 20, due: true, late: true, then: func(p *listwatch.Progress) { p.Opened(10, 20) }},
		"bookmarks are late":        {furthest: 15, head: 20, due: true, then: func(p *listwatch.Progress) { p.Lenience++ }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p listwatch.Progress
				p.Opened(10, 10)
				p.Tick(10, time.Minute)
				p.Bookmark(10, test.furthest, lag)
				if p.Due() != test.due || p.Late() {
					t.Errorf("due: %t, late: %t", p.Due(), p.Late())
				}
				p.Asked(test.head, test.furthest)
				p.Expect(10, test.head)
				p.Bookmark(10, test.furthest, lag)
				if p.Due() && test.head > 10 || p.Late() {
					t.Errorf("at once: due: %t, late: %t", p.Due(), p.Late())
				}
				if test.then != nil {
					test.then(&p)
				}
				<-time.After(lag)
				p.Bookmark(10, test.furthest, lag)
				if p.Late() != test.late {
					t.Errorf("late: %t", p.Late())
				}
			})
		})
	}
	p := listwatch.Progress{}
	p.Asked(10, 15)
	if p.Bookmark(10, 15, lag); p.Due() {
		t.Error("due because of another etcd")
	}
}

// TestFalseAlarm: a watch that replaces a stuck one and brings no event shows that nothing was
// missing.
func TestFalseAlarm(t *testing.T) {
	for missed, lenience := range map[bool]int{false: 1, true: 0} {
		p := listwatch.Progress{Stuck: 1}
		p.Opened(10, 20)
		if missed {
			p.Event()
		}
		if p.Reached(15) || p.Stuck != 1 {
			t.Errorf("on the way: %+v", p)
		}
		if !p.Reached(20) || p.Stuck != 0 || p.Lenience != lenience {
			t.Errorf("missed: %t: %+v", missed, p)
		}
	}
}
