package listwatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/listwatch"
)

// TestOvertaken: what other watches show counts only for a watch that does not move, in the same
// etcd, with a bookmark that came late enough.
func TestOvertaken(t *testing.T) {
	const lag = 15 * time.Second
	for name, test := range map[string]struct {
		want bool
		do   func(p *listwatch.Progress)
	}{
		"stuck":           {true, func(p *listwatch.Progress) { p.Answered(20, 15) }},
		"in another etcd": {false, func(p *listwatch.Progress) { p.Answered(14, 15) }},
		"not asked":       {false, func(*listwatch.Progress) {}},
		"bookmarks are late": {false, func(p *listwatch.Progress) {
			p.Answered(20, 15)
			p.Lenience = 1
		}},
		"moved": {false, func(p *listwatch.Progress) {
			p.Answered(20, 15)
			p.Tick(11, time.Minute)
		}},
		"opened again": {false, func(p *listwatch.Progress) {
			p.Answered(20, 15)
			p.Opened(10, 20)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p listwatch.Progress
				p.Opened(10, 10)
				p.Tick(10, time.Minute)
				p.Others(10, 10)
				p.Bookmark(lag)
				p.Others(10, 15)
				p.Bookmark(lag)
				test.do(&p)
				if p.Overtaken() {
					t.Error("overtaken at once")
				}
				time.Sleep(lag)
				p.Bookmark(lag)
				if got := p.Overtaken(); got != test.want {
					t.Errorf("overtaken: %t", got)
				}
			})
		})
	}
}
