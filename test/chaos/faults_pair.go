package chaos

import (
	"context"
	"errors"
	"time"
)

// pairFaults are those of replicas. The times are those of a lease of [leaseDuration].
func pairFaults() []*fault {
	informd := []string{"informd"}
	return []*fault{
		{"N19-kill-leader", informd, needsPair, killThe((*attack).leader)},
		{"N19-kill-follower", informd, needsPair, killThe((*attack).follower)},
		{"N19-stop-leader", informd, needsPair, stopLeader},
		{"N19-freeze-leader", informd, needsPair, freezeThe((*attack).leader)},
		{"N19-freeze-follower", informd, needsPair, freezeThe((*attack).follower)},
		{"N19-former-leader", informd, needsPair, formerLeader},
		{"N19-lose-leader", informd, needsPair, loseThe((*attack).leader)},
		{"N19-lose-follower", informd, needsPair, loseThe((*attack).follower)},
		{"N19-lose-leader-over-compaction", []string{"informd", "api", "compaction", "peers"}, needsPair, loseOverCompaction(false)},
		{"N19-lose-leader-of-one-behind", []string{"informd", "api", "compaction", "peers"}, needsPair, loseOverCompaction(true)},
		{"N19-roll-out", informd, needsPair, rollOut(false)},
		{"N19-roll-out-without-volumes", informd, needsPair, rollOut(true)},
		{"N19-part", []string{"peers"}, needsPair, part},
		{"N19-cut-off-api", []string{"one-link"}, needsPair, cutOff((*side).apiLinks)},
		{"N19-cut-off-sinks", []string{"sinks"}, needsPair, cutOff((*side).sinkLinks)},
		{"N19-isolate-leader", []string{"one-link", "peers"}, needsPair, isolateLeader},
		{"N19-follower-behind-without-api", []string{"link", "peers", "informd"}, needsPair, behindWithoutAPI},
	}
}

func needsPair(r *Rig) string {
	if !r.options.paired() {
		return "there is one informd only"
	}
	return ""
}

// leader returns the index of the informd that says that it leads, or of any.
func (a *attack) leader() int {
	for i, d := range a.informds {
		ctx, cancel := context.WithTimeout(a.ctx, requestTimeout)
		follows, err := d.Follows(ctx)
		cancel()
		if err == nil && !follows {
			return i
		}
	}
	return a.random.IntN(len(a.informds))
}

// follower returns the index of one that does not lead.
func (a *attack) follower() int { return (a.leader() + 1) % len(a.informds) }

func killThe(which func(*attack) int) func(*attack) error {
	return func(a *attack) error {
		d := a.informds[which(a)]
		if err := d.Kill(); err != nil {
			return err
		}
		a.hold(0, 4*leaseDuration)
		return d.Start(a.ctx)
	}
}

func stopLeader(a *attack) error {
	d := a.informds[a.leader()]
	_ = d.Stop() // a stop that takes too long is an error of the process
	a.hold(0, 2*leaseDuration)
	return d.Start(a.ctx)
}

// freezeThe freezes for less than the lease, or for up to five times as long.
func freezeThe(which func(*attack) int) func(*attack) error {
	return func(a *attack) error {
		d := a.informds[which(a)]
		if err := d.Freeze(); err != nil {
			return err
		}
		if a.either() {
			a.hold(leaseDuration/10, leaseDuration)
		} else {
			a.hold(leaseDuration, 5*leaseDuration)
		}
		return d.Thaw()
	}
}

// formerLeader kills each leader as soon as the one before is back.
func formerLeader(a *attack) error {
	for range 2 + a.random.IntN(3) {
		d := a.informds[a.leader()]
		if err := d.Kill(); err != nil {
			return err
		}
		a.hold(0, 2*leaseDuration)
		if err := d.Start(a.ctx); err != nil {
			return err
		}
		a.hold(0, 2*leaseDuration)
	}
	return nil
}

// loseThe takes the process and its volume.
func loseThe(which func(*attack) int) func(*attack) error {
	return func(a *attack) error {
		i := which(a)
		if err := a.informds[i].Kill(); err != nil {
			return err
		}
		err := a.sides[i].empty()
		a.hold(0, 3*leaseDuration)
		return errors.Join(err, a.informds[i].Start(a.ctx))
	}
}

// loseOverCompaction has the leader's volume and etcd's history lost at once, so that only the copy knows what
// sinks have; or nobody, if the follower was behind. Just before, the copy gets nothing: less than the second
// after which it would not count any more, or longer.
func loseOverCompaction(behind bool) func(*attack) error {
	return func(a *attack) error {
		if err := a.awaitPair(); err != nil {
			return err
		}
		i := a.leader()
		all(a.peers(), (*Link).Hold)
		if behind {
			a.hold(2*leaseDuration, 3*leaseDuration)
		} else {
			a.hold(leaseDuration/8, leaseDuration/3)
		}
		if err := a.informds[i].Kill(); err != nil {
			return err
		}
		err := errors.Join(a.sides[i].empty(), a.loseHistory())
		all(a.peers(), (*Link).Heal)
		a.hold(0, 3*leaseDuration)
		return errors.Join(err, a.informds[i].Start(a.ctx))
	}
}

// awaitPair waits until all are ready: one leads, and the others have whole copies.
func (a *attack) awaitPair() error {
	for _, d := range a.informds {
		if err := a.until(d.Ready); err != nil {
			return err
		}
	}
	return nil
}

// rollOut replaces one after the other by one with a changed config, the followers first, each when the one
// before is ready.
func rollOut(volumesGo bool) func(*attack) error {
	return func(a *attack) error {
		if err := a.awaitPair(); err != nil {
			return err
		}
		first := a.follower()
		for n := range a.informds {
			i := (first + n) % len(a.informds)
			d, s := a.informds[i], a.sides[i]
			s.variant = 1 + a.random.IntN(9)
			err := a.writeConfig(i, d.admin)
			_ = d.Stop() // a stop that takes too long is an error of the process
			if volumesGo {
				err = errors.Join(err, s.empty())
			}
			if err = errors.Join(err, d.Start(a.ctx), a.until(d.Ready)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *side) apiLinks() []*Link  { return []*Link{s.api} }
func (s *side) sinkLinks() []*Link { return []*Link{s.bus, s.hook} }

// cut breaks links for a while, with or without a word.
func (a *attack) cut(links []*Link, least, most time.Duration) {
	how := (*Link).Hold
	if a.either() {
		how = (*Link).Refuse
	}
	all(links, how)
	a.hold(least, most)
	all(links, (*Link).Heal)
}

func all(links []*Link, do func(*Link)) {
	for _, l := range links {
		do(l)
	}
}

// cutOff cuts one of the informds off from others.
func cutOff(from func(*side) []*Link) func(*attack) error {
	return func(a *attack) error {
		a.cut(from(a.sides[a.random.IntN(len(a.sides))]), leaseDuration/4, 5*leaseDuration)
		return nil
	}
}

func (a *attack) peers() (links []*Link) {
	for _, s := range a.sides {
		links = append(links, s.peer)
	}
	return links
}

// part has no informd reach another one.
func part(a *attack) error {
	a.cut(a.peers(), leaseDuration/4, 5*leaseDuration)
	return nil
}

// isolateLeader leaves the leader the destinations of its sinks only.
func isolateLeader(a *attack) error {
	a.cut(append(a.peers(), a.sides[a.leader()].api), leaseDuration/4, 5*leaseDuration)
	return nil
}

// behindWithoutAPI has no API server answer for longer than a follower waits that is not in sync.
func behindWithoutAPI(a *attack) error {
	all(a.peers(), (*Link).Refuse)
	a.hold(leaseDuration, 2*leaseDuration)
	a.cut([]*Link{a.apiLink}, 20*leaseDuration, 20*leaseDuration)
	a.hold(leaseDuration, 2*leaseDuration)
	all(a.peers(), (*Link).Heal)
	return nil
}
