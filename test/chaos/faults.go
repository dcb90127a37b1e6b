package chaos

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/informd/informd/test/cluster/proc"
)

// faults are all faults there are. The ids are those of the project's list of
// failure modes.
func faults() []*fault {
	all := []*fault{
		{"N2-freeze-informd", []string{"informd"}, nil, freezeInformd},
		{"N3-stop-apiserver", []string{"api"}, nil, stopAPIServer},
		{"N3-kill-apiserver", []string{"api"}, nil, killAPIServer},
		{"N3-kill-both-apiservers", []string{"api"}, nil, killBothAPIServers},
		{"N3-down-two-minutes", []string{"api"}, needsTime("N3-down-two-minutes"), apiServersDownTwoMinutes},
		{"N4-stale-apiserver", []string{"api", "link"}, nil, staleAPIServer},
		{"N5-compact", []string{"compaction"}, nil, compact},
		{"N5-defragment", []string{"compaction"}, nil, defragment},
		{"N5-kill-etcd", []string{"etcd"}, nil, killEtcd},
		{"N6-restore-etcd", []string{"all"}, nil, restoreEtcd},
		{"N6-restore-documented", []string{"all"}, nil, restoreDocumented(false)},
		{"N6-restore-below-running", []string{"all"}, nil, restoreDocumented(true)},
		{"N7-reset-watches", []string{"link"}, nil, resetWatches},
		{"N7-half-open", []string{"link"}, nil, halfOpen},
		{"N7-drip", []string{"link"}, nil, drip},
		{"N7-unreachable", []string{"link"}, nil, unreachable},
		{"N9-recreate-crd", []string{"crd"}, nil, recreateCRD},
		{"N9-edit-crd", []string{"crd-edit"}, nil, editCRD},
		{"N10-revoke", []string{"rbac", "link"}, nil, revokeRights},
		{"N11-kill-nats", []string{"bus"}, nil, func(a *attack) error { return restart(a, a.bus.Process) }},
		{"N11-freeze-nats", []string{"bus"}, nil, func(a *attack) error { return freeze(a, a.bus.Process) }},
		{"N13-slow-nats", []string{"bus"}, nil, slowBus},
	}
	return slices.Concat(all, informdFaults(), pairFaults(), hookFaults(), proxyFaults(), serverFaults(), operatorFaults(), tenantFaults())
}

func informdFaults() []*fault {
	return []*fault{
		{"N1-kill-informd", []string{"informd"}, needsDurable, killInformd},
		{"N1-stop-informd", []string{"informd"}, needsDurable, stopInformd},
		{"N1-lose-power", []string{"informd", "disk"}, needsLog, losePower(false)},
		{"N1-lose-power-over-compaction", []string{"informd", "disk", "api", "compaction"}, needsLog, losePower(true)},
		{"N1-down-over-compaction", []string{"informd", "api", "compaction"}, needsDurable, downOverCompaction},
		{"N1-down-two-minutes", []string{"informd", "api"}, needsAsking, downTwoMinutes},
		{"N17-kill-in-reconcile", []string{"informd", "api", "compaction"}, needsDurable, killInReconcile},
		{"N15-disk-full", []string{"disk"}, needsDisk, fillDisk},
		{"N15-disk-read-only", []string{"disk", "informd"}, needsDurableDisk, protectDisk},
		{"N16-truncate", []string{"informd", "disk"}, needsFiles, func(a *attack) error { return damage(a, truncate) }},
		{"N16-change-bytes", []string{"informd", "disk"}, needsFiles, func(a *attack) error { return damage(a, changeBytes) }},
		{"N16-delete-file", []string{"informd", "disk"}, needsFiles, func(a *attack) error { return damage(a, remove) }},
	}
}

func hookFaults() []*fault {
	misbehave := func(m Manners) func(*attack) error {
		return func(a *attack) error {
			a.hook.Behave(m)
			defer a.hook.Behave(Manners{})
			a.hold(2*time.Second, 10*time.Second)
			return nil
		}
	}
	hook := []string{"hook"}
	return []*fault{
		{"N13-slow-webhook", hook, needsHook, misbehave(Manners{Slow: 100 * time.Millisecond})},
		{"N13-hung-webhook", hook, needsHook, misbehave(Manners{Hang: true})},
		{"N14-webhook-500", hook, needsHook, misbehave(Manners{Status: http.StatusInternalServerError, Share: 0.5})},
		{"N14-webhook-429", hook, needsHook, misbehave(Manners{Status: http.StatusTooManyRequests, Share: 0.2})},
		{"N14-webhook-503-all", hook, needsHook, misbehave(Manners{Status: http.StatusServiceUnavailable, Share: 1})},
		{"N14-webhook-400", hook, needsHook, misbehave(Manners{Poison: 0.005})},
		{"N14-webhook-timeouts", hook, needsHook, misbehave(Manners{Slow: 4 * time.Second})},
		{"N14-webhook-lost-answers", hook, needsHook, misbehave(Manners{LoseAnswers: true, Share: 0.3})},
	}
}

func needsHook(r *Rig) string {
	if r.options.Baseline {
		return "the baseline has no webhook"
	}
	return ""
}

func needsDurable(r *Rig) string {
	if !r.options.durable() {
		return "a restart with the journal memory begins anew"
	}
	return ""
}

func needsFiles(r *Rig) string {
	if r.options.Journal != JournalLog || r.options.Baseline {
		return "the journal is not in files"
	}
	return ""
}

func needsLog(r *Rig) string {
	if r.options.Journal != JournalLog || r.options.Baseline {
		return "the journal says nothing of what is synced"
	}
	return ""
}

// needsAsking: it takes long, so that nothing else would have its turn.
func needsAsking(r *Rig) string {
	if !slices.Contains(r.options.Faults, "N1-down-two-minutes") {
		return "runs only when asked for by name: it takes two minutes"
	}
	return needsDurable(r)
}

func needsDisk(r *Rig) string {
	if !r.disks[0].mounted || r.options.Baseline {
		return "no file system of its own could be mounted"
	}
	return ""
}

func needsDurableDisk(r *Rig) string {
	if lacks := needsDisk(r); lacks != "" {
		return lacks
	}
	return needsDurable(r)
}

// restart kills a server and starts it again after a while.
func restart(a *attack, p *proc.Process) error {
	if err := p.Kill(); err != nil {
		return err
	}
	a.hold(100*time.Millisecond, 5*time.Second)
	return p.Start(a.ctx)
}

func freeze(a *attack, p *proc.Process) error {
	if err := p.Freeze(); err != nil {
		return err
	}
	a.hold(time.Second, 10*time.Second)
	return p.Thaw()
}

func slowBus(a *attack) error {
	a.busLink.Delay(a.between(time.Millisecond, 50*time.Millisecond))
	defer a.busLink.Heal()
	a.hold(2*time.Second, 10*time.Second)
	return nil
}

func resetWatches(a *attack) error {
	for range 1 + a.random.IntN(4) {
		a.apiLink.Cut()
		a.hold(0, time.Second)
	}
	return nil
}

func halfOpen(a *attack) error {
	a.apiLink.Hold()
	a.hold(2*time.Second, 30*time.Second)
	a.apiLink.Heal()
	return nil
}

func drip(a *attack) error {
	a.apiLink.Drip()
	a.hold(2*time.Second, 8*time.Second)
	a.apiLink.Heal()
	return nil
}

func unreachable(a *attack) error {
	a.apiLink.Refuse()
	a.hold(time.Second, 10*time.Second)
	a.apiLink.Heal()
	return nil
}

func revokeRights(a *attack) error {
	if err := a.until(a.revoke); err != nil {
		return err
	}
	a.hold(0, time.Second) // a watch that is open goes on
	a.apiLink.Cut()
	a.hold(time.Second, 8*time.Second)
	return a.until(a.grant)
}

func freezeInformd(a *attack) error {
	for _, d := range a.informds {
		if err := d.Freeze(); err != nil {
			return err
		}
	}
	a.hold(time.Second, 15*time.Second)
	for _, d := range a.informds {
		if err := d.Thaw(); err != nil {
			return err
		}
	}
	return nil
}

// compact is what etcd's owner does every few minutes.
func compact(a *attack) error {
	return a.until(func(ctx context.Context) error { return a.oracle.Compact(ctx) })
}

func defragment(a *attack) error { return a.until(a.oracle.Defragment) }
