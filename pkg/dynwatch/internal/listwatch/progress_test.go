package listwatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// TestBookmarksThatDoNotMove: one that is behind the head long after that was asked for proves that the watch is stuck.
func TestBookmarksThatDoNotMove(t *testing.T) {
	const lag = 15 * time.Second
	for name, test := range map[string]struct {
		head uint64
		then func(p *listwatch.Progress)
		late bool
	}{
		"stuck":              {head: 20, late: true},
		"at the head":        {head: 10},
		"moved":              {head: 20, then: func(p *listwatch.Progress) { p.Tick(20, time.Minute) }},
		"opened again":       {head: 20, late: true, then: func(p *listwatch.Progress) { p.Opened(10, 20) }},
		"bookmarks are late": {head: 20, then: func(p *listwatch.Progress) { p.Lenience++ }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p listwatch.Progress
				p.Opened(10, 10)
				p.Tick(10, time.Minute)
				p.Asked()
				p.Expect(10, test.head)
				p.Bookmark(10, lag)
				if p.Late() {
					t.Error("late at once")
				}
				if test.then != nil {
					test.then(&p)
				}
				<-time.After(lag)
				p.Bookmark(10, lag)
				if p.Late() != test.late {
					t.Errorf("late: %t", p.Late())
				}
			})
		})
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
