package delivery_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/test/e2e"
)

// TestReloadOfTheFile needs no signal: a new sink gets its snapshot, a resource
// comes and goes, and a mistake changes nothing and is told.
func TestReloadOfTheFile(t *testing.T) {
	r := e2e.NewRig(t)
	d := e2e.NewInformd(t, r.Setup(e2e.LogJournal))
	file, base := e2e.MountConfig(t, d)
	d.Start()
	d.WaitForSync(len(r.Kinds))
	d.WaitForLive(len(r.Kinds))
	quiet := len(d.Records())

	late := filepath.Join(d.Dir, "late.ndjson")
	more := strings.Replace(base, "sinks:\n", fmt.Sprintf("sinks:\n  - {name: late, type: file, path: %q}\n", late), 1)
	file.Swap(more)
	var lateFile e2e.EventFile
	e2e.Eventually(t, "the new sink has a snapshot", func() bool { return e2e.Count(lateFile.Read(t, late), "synced") == len(r.Kinds) })
	if got, want := e2e.Count(lateFile.Read(t, late), "snapshot"), e2e.Count(d.Records(), "snapshot"); got > want || got == 0 {
		t.Errorf("the new sink has %d objects in its snapshot, the first one had %d", got, want)
	}
	if got := len(d.Records()); got != quiet {
		t.Errorf("the other sink got %d events for that", got-quiet)
	}

	file.Write(strings.Replace(more, "resource: pods", "resource: pods, mod: full", 1))
	e2e.Eventually(t, "the mistake is told", func() bool { return !d.ConfigStatus().LastReloadSuccessful })
	if got := d.ConfigStatus().LastReloadError; !strings.Contains(got, "config.yaml:4:") || !strings.Contains(got, "mod") {
		t.Errorf("error %q", got)
	}
	e2e.Eventually(t, "the log tells of the mistake", func() bool { return strings.Contains(d.Stderr.String(), "config.yaml:4:") })
	if d.Metrics()["informd_config_last_reload_successful"] != 0 {
		t.Error("the metrics do not tell of the mistake")
	}
	d.WaitForLive(len(r.Kinds))

	file.Swap(strings.Replace(more, "- {group: e2e.example.com, resource: planets, mode: full}", "", 1))
	e2e.Eventually(t, "the mistake is mended", func() bool { return d.ConfigStatus().LastReloadSuccessful })
	e2e.Eventually(t, "the target is gone", func() bool { s, err := d.Status(); return err == nil && len(s.Targets) == len(r.Kinds)-1 })
	r.Write(10) // planets, too, which nobody watches
	file.Swap(base)
	r.Finish(e2e.Claim{}, d.Records)
	d.WaitForLive(len(r.Kinds))

	file.Write(strings.Replace(base, "type: log", "type: memory", 1))
	e2e.Eventually(t, "the change of the journal is refused", func() bool {
		return strings.Contains(d.ConfigStatus().LastReloadError, "journal.type: cannot change while informd runs")
	})
	d.WaitForLive(len(r.Kinds))
}
