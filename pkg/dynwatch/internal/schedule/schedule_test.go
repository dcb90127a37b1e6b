package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/index"
	"github.com/informd/informd/pkg/dynwatch/internal/schedule"
)

// handClock stops until it is moved.
type handClock struct{ at time.Time }

// newHandClock begins at the third part of an hour, 10:20.
func newHandClock() *handClock {
	return &handClock{at: time.Date(2026, 11, 20, 10, 20, 0, 0, time.UTC)}
}

func (c *handClock) now() time.Time { return c.at }

func (c *handClock) move(d time.Duration) { c.at = c.at.Add(d) }

const (
	runAt10 = 1795168800_000 // 2026-11-20T10:00:00Z
	runAt11 = runAt10 + 3600_000
)

// known is a schedule and the objects of a target.
type known struct {
	schedule schedule.Schedule
	index    *index.Index
}

// newKnown begins one now.
func newKnown(target string, period time.Duration, clock func() time.Time) *known {
	return &known{schedule.New(target+"/things", period, clock), index.New()}
}

// add makes an object known that was last announced anew in a run.
func (s *known) add(name string, run uint64) {
	s.index.Put(index.ID{Namespace: "a", Name: name, UID: name}).Run = run
}

// ready returns what has fallen due since the last call, as name and run, and that it
// is done.
func (s *known) ready() (all []string) {
	for {
		ready, _ := s.schedule.Look(s.index)
		if len(ready) == 0 {
			return all
		}
		for _, d := range ready {
			all = append(all, fmt.Sprintf("%s:r%d", s.index.Name(s.index.ByHandle(d.Entry)), s.schedule.Run(d.At)))
			s.schedule.Done()
		}
	}
}

// position is what a later process goes on from.
func (s *known) position() int64 { return s.schedule.Position() }

// goOn goes on from there.
func (s *known) goOn(position int64) { s.schedule.GoOn(position) }

func TestScheduleSpreadsEvenly(t *testing.T) {
	const objects, parts = 1000, 20
	c := newHandClock()
	c.at = c.at.Truncate(time.Hour)
	s := newKnown("x", time.Hour, c.now)
	for i := range objects {
		s.add(fmt.Sprintf("web-%d", i), 0)
	}
	count := make(map[string]int)
	for part := range 2 * parts {
		c.move(time.Hour / parts / 2) // less than what one look takes in
		ready := s.ready()
		c.move(time.Hour / parts / 2)
		ready = append(ready, s.ready()...)
		if n := len(ready); n < objects/parts/2 || n > 2*objects/parts {
			t.Errorf("part %d has %d objects, want about %d", part, n, objects/parts)
		}
		want := fmt.Sprintf(":r%d", runAt10+3600_000*(part/parts))
		for _, one := range ready {
			if count[one]++; !strings.HasSuffix(one, want) {
				t.Errorf("part %d: %s, want %s", part, one, want)
			}
		}
	}
	if len(count) != 2*objects {
		t.Errorf("%d of %d objects and rounds", len(count), 2*objects)
	}
	for one, n := range count {
		if n != 1 {
			t.Errorf("%s fell due %d times", one, n)
		}
	}
}

// Names that differ in their last letter only do not come in a row, however long the
// period is.
func TestScheduleSpreadsNeighbours(t *testing.T) {
	const day = 24 * time.Hour
	c := newHandClock()
	s := newKnown("x", day, c.now)
	for i := range 10 {
		s.add(fmt.Sprintf("web-%d", i), 0)
	}
	quarters := make(map[time.Duration]int)
	for passed := time.Duration(0); passed < day; passed += day / 96 {
		c.move(day / 96)
		if n := len(s.ready()); n > 0 {
			quarters[passed/(day/4)] += n
		}
	}
	if len(quarters) < 3 || slices.Max(slices.Collect(maps.Values(quarters))) > 5 {
		t.Errorf("objects per quarter of a day: %v", quarters)
	}
}

// Every process, and the next one, has the same object at the same time; other
// resources have those of the same name at another.
func TestScheduleIsStable(t *testing.T) {
	first := func(target string) time.Duration {
		c := newHandClock()
		s := newKnown(target, time.Hour, c.now)
		s.add("web", 0)
		for passed := time.Minute; passed <= time.Hour; passed += time.Minute {
			if c.move(time.Minute); len(s.ready()) > 0 {
				return passed
			}
		}
		t.Fatal("not due within an hour")
		return 0
	}
	if a, b := first("x"), first("x"); a != b {
		t.Errorf("due after %s and after %s", a, b)
	}
	times := make(map[time.Duration]bool)
	for i := range 10 {
		times[first(fmt.Sprint("x", i))] = true
	}
	if len(times) < 5 {
		t.Errorf("ten resources fall due at %v", slices.Sorted(maps.Keys(times)))
	}
}

func TestScheduleGoesOn(t *testing.T) {
	const objects = 600
	for name, test := range map[string]struct {
		away time.Duration
		// most is how many objects may fall due in the first minute after.
		most int
		// rounds are those of the objects of one period from the break on.
		rounds int
	}{
		"at once":              {0, 25, 2},
		"within the round":     {10 * time.Minute, 60, 2},
		"after a whole period": {100 * time.Minute, 60, 2},
		"after many":           {50 * time.Hour, 60, 2},
		"before":               {-5 * time.Minute, 25, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := newHandClock()
			s := newKnown("x", time.Hour, c.now)
			again := newKnown("x", time.Hour, c.now)
			for i := range objects {
				s.add(fmt.Sprint(i), 0)
				again.add(fmt.Sprint(i), 0)
			}
			count := make(map[string]int)
			pass := func(s *known, minutes int) (most int) {
				for range minutes {
					c.move(time.Minute)
					ready := s.ready()
					most = max(most, len(ready))
					for _, one := range ready {
						count[one]++
					}
				}
				return most
			}
			pass(s, 30)
			c.move(test.away)
			again.goOn(s.position())
			if most := pass(again, 60); most > test.most {
				t.Errorf("%d objects in a minute", most)
			}
			for one, n := range count {
				if n != 1 {
					t.Errorf("%s fell due %d times", one, n)
				}
			}
			objects := make(map[string]bool)
			for one := range count {
				object, _, _ := strings.Cut(one, ":")
				objects[object] = true
			}
			if test.away >= 0 && len(objects) != 600 {
				t.Errorf("%d objects fell due in a period", len(objects))
			}
		})
	}
}

// The clock may be set back by more than a period.
func TestScheduleWithAnotherTime(t *testing.T) {
	c := newHandClock()
	s := newKnown("x", time.Hour, c.now)
	s.add("web", 0)
	c.move(-5 * time.Hour)
	n := 0
	for range 120 {
		c.move(time.Minute)
		n += len(s.ready())
	}
	if n != 2 {
		t.Errorf("due %d times in two hours", n)
	}
}

// What a process announced before it was killed is in the log, if not in the mark.
func TestScheduleSparesWhatTheLogHas(t *testing.T) {
	c := newHandClock()
	s := newKnown("x", time.Hour, c.now)
	c.move(40 * time.Minute) // 11:00
	s.goOn(c.now().UnixNano())
	for i := range 100 {
		s.add(fmt.Sprint("done-", i), runAt11)
		s.add(fmt.Sprint("asked-", i), runAt11+7)
		s.add(fmt.Sprint("due-", i), runAt10)
	}
	var ready []string
	for range 59 {
		c.move(time.Minute)
		ready = append(ready, s.ready()...)
	}
	for _, one := range ready {
		if !strings.HasPrefix(one, "due-") {
			t.Errorf("%s fell due", one)
		}
	}
	if len(ready) < 90 {
		t.Errorf("%d fell due", len(ready))
	}
}
