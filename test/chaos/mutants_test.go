package chaos

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
	"time"
)

// mutant is a bug, of the kind that such programs have, put into informd to see
// that the harness finds it: old is replaced by new in a file of the product.
type mutant struct {
	name, file, old, new string
	// faults show it.
	faults string
	// duration is 45 s unless set.
	duration time.Duration
	// informds is how many replicas run; 0: one.
	informds int
	// caughtBy are the invariants of which at least one must break.
	caughtBy []string
}

func mutants() []mutant {
	return []mutant{
		{
			name: "commit-before-delivery", file: "internal/deliver/runner.go",
			old:    "last := entries[len(entries)-1].Seq\n\t\trest = seqs\n",
			new:    "last := entries[len(entries)-1].Seq\n\t\trest = seqs\n\t\tin.commit(last)\n",
			faults: "N1-kill-informd,N11-kill-nats,N11-freeze-nats", caughtBy: []string{"I1", "I2", "I4", "I14"},
		},
		{
			name: "failed-write-counts", file: "internal/deliver/writer.go",
			old: "case n == len(batch):\n\t\treturn n, nil", new: "case n == len(batch), ctx.Err() == nil:\n\t\treturn len(batch), nil",
			faults: "N11-kill-nats,N14-webhook-timeouts,N14-webhook-lost-answers", caughtBy: []string{"I1", "I2", "I4", "I14"},
		},
		{
			name: "rows-before-the-sync", file: "pkg/journal/journal.go",
			old: "event.Gap, event.Snapshot, event.Added, event.Entered, event.Left:\n\t\treturn true", new: "event.Gap, event.Snapshot, event.Added, event.Entered, event.Left:\n\t\treturn false",
			faults: "N1-lose-power-over-compaction,N1-lose-power", caughtBy: []string{"I1", "I3", "I4", "I12", "I14"},
		},
		{
			name: "lanes-by-event", file: "internal/deliver/lanes.go",
			old: "maphash.String(l.seed, e.Event.Key())", new: "maphash.String(l.seed, e.Event.ID)",
			faults: "N13-slow-webhook,N14-webhook-lost-answers", caughtBy: []string{"I3", "I14"},
		},
		{
			name: "uid-ignored", file: "pkg/dynwatch/internal/index/known.go",
			old: "if x.IsUID(e, uid) {", new: "if !x.IsUID(e, \"\") {",
			faults: "N3-kill-both-apiservers,N1-down-over-compaction,N5-compact,N7-reset-watches", caughtBy: []string{"I3", "I4", "I5", "I14"},
		},
		{
			name: "uid-ignored-in-lists", file: "pkg/dynwatch/internal/target/list.go",
			old: "if d.Replaced || d.Op != \"\" {", new: "if !d.Replaced && d.Op != \"\" {",
			faults: "N3-kill-both-apiservers,N1-down-over-compaction,N5-compact", caughtBy: []string{"I1", "I2", "I3", "I4", "I5"},
		},
		{
			name: "deletions-not-reconciled", file: "pkg/dynwatch/internal/target/list.go",
			old: "if e.Sweep != s.Number {\n\t\t\tgone", new: "if e.Sweep != s.Number && s.Number == 0 {\n\t\t\tgone",
			faults: "N1-down-over-compaction,N3-kill-both-apiservers,N5-compact", caughtBy: []string{"I1", "I2", "I4"},
		},
		{
			name: "forbidden-is-empty", file: "pkg/dynwatch/internal/listwatch/pages.go",
			old:    "if err != nil {\n\t\treturn 0, fmt.Errorf(\"list metadata: %w\", err)",
			new:    "if apierrors.IsForbidden(err) {\n\t\treturn 1 << 40, nil\n\t}\n\tif err != nil {\n\t\treturn 0, fmt.Errorf(\"list metadata: %w\", err)",
			faults: "N20-proxy-403-lists", caughtBy: []string{"I13", "I9", "I4", "I1", "I5"},
		},
		{
			name: "ends-forgotten-at-restart", file: "pkg/dynwatch/internal/target/restore.go",
			old: "ends[index.Key(e.Namespace, e.Name)] = ending{e.ResourceVersion, e.Epoch, e.Op == event.Left}\n", new: "",
			faults: "N1-kill-informd", caughtBy: []string{"I3", "I6", "I12", "I14"},
		},
		{
			name: "index-forgotten-at-restart", file: "pkg/dynwatch/internal/target/restore.go",
			old: "one := x.Put(", new: "one := index.New().Put(",
			faults: "N1-kill-informd,N1-stop-informd", caughtBy: []string{"I6", "I7", "I12", "I14", "I3"},
		},
		{
			name: "cursor-ahead-of-the-journal", file: "pkg/dynwatch/internal/target/restore.go",
			old: "t.position.set(m.RV)\n\tt.position.proven", new: "t.position.set(m.RV + 200)\n\tt.position.proven",
			faults: "N1-kill-informd,N1-stop-informd", caughtBy: []string{"I1", "I2", "I4", "I9"},
		},
		{
			name: "gap-not-declared", file: "pkg/dynwatch/internal/target/recover.go",
			old: "(!l.walks() || l.from < rv) {", new: "(!l.walks() && l.from < rv) {",
			faults: "N1-down-over-compaction,N3-kill-both-apiservers,N5-compact", caughtBy: []string{"I2"},
		},
		{
			name: "walk-in-the-wrong-order", file: "pkg/dynwatch/internal/recovery/history.go",
			old: "range slices.Backward(l.states) {", new: "range l.states {",
			faults: "N3-kill-both-apiservers,N3-kill-apiserver", caughtBy: []string{"I2", "I3", "I14", "I6", "I12"},
		},
		{
			name: "known-revision-announced-again", file: "pkg/dynwatch/internal/decide/decide.go",
			old: "case s.RV <= k.Newest:", new: "case s.RV < k.Newest:",
			faults: "N1-kill-informd", caughtBy: []string{"I3", "I6", "I12", "I14"},
		},
		{
			name: "epoch-not-raised", file: "pkg/dynwatch/internal/target/rollback.go",
			old: "t.Writer.Epoch++", new: "t.Writer.Epoch += 0",
			faults: "N6-restore-etcd", caughtBy: []string{"I1", "I2", "I3", "I5", "I6", "I14"},
		},
		{
			name: "list-of-older-revision-trusted", file: "pkg/dynwatch/internal/target/rollback.go",
			old: "known)\n\treturn t.rollBack()", new: "known)\n\treturn nil",
			faults: "N6-restore-documented,N6-restore-below-running", caughtBy: []string{"I1", "I2", "I3", "I4", "I5"},
		},
		{
			name: "frozen-bookmarks-count", file: "pkg/dynwatch/internal/target/progress.go",
			old: "p.Tick(t.position.rv, 2*t.Timing.Tick)\n", new: "p.Tick(t.position.rv, 2*t.Timing.Tick)\n\tt.liveness.bookmarked = false\n",
			faults: "N22-watches-stuck", duration: 4 * time.Minute, caughtBy: []string{"I16"},
		},
		{
			name: "watch-from-the-next-revision", file: "pkg/dynwatch/internal/target/follow.go",
			old: "t.Discovery.Source.Watch(ctx, t.position.resume(),", new: "t.Discovery.Source.Watch(ctx, t.position.resume()+1,",
			faults: "N7-reset-watches", caughtBy: []string{"I2", "I1", "I4"},
		},
		{
			name: "404-is-deletion", file: "pkg/dynwatch/internal/target/unserved.go",
			old:    "if kube.IsUnconfirmed(denial) {\n\t\t*a = catalog.Absence{}\n",
			new:    "if kube.IsUnconfirmed(denial) && known {\n\t\treturn errors.Join(t.endResource(ctx, reasonUnserved, 0), denial)\n\t}\n\tif kube.IsUnconfirmed(denial) {\n\t\t*a = catalog.Absence{}\n",
			faults: "N20-proxy-404-all,N20-proxy-404-group,N20-proxy-404-one-server", caughtBy: []string{"I5"},
		},
		{
			name: "secrets-in-the-clear", file: "pkg/dynwatch/internal/target/spec.go",
			old: `s.Group == "" && s.Resource == "secrets"`, new: `s.Group == "" && s.Resource == "secret"`,
			faults: "N7-reset-watches", caughtBy: []string{"I11"},
		},
		{
			name: "long-names-without-a-word", file: "pkg/dynwatch/internal/target/rejected.go",
			old: "r.status.Block()\n\tdefer r.status.Unblock()\n", new: "if r != nil {\n\t\treturn nil\n\t}\n",
			faults: "N25-tenant-long-name", caughtBy: []string{"I1", "I2"},
		},
		{
			name: "copies-of-secrets-in-the-clear", file: "pkg/dynwatch/internal/frame/secret.go",
			old: "field == annotationsField && s.redactor.plain.has(key) {", new: "field == annotationsField && !s.redactor.plain.has(key) {",
			faults: "N25-tenant-secrets", caughtBy: []string{"I11"},
		},
		{
			name: "full-journal-stays-full", file: "pkg/journal/retain.go",
			old: "short := stats.Blocked > 0 || stats.Bytes >", new: "short := stats.Limit < 0 && stats.Bytes >",
			faults: "N25-tenant-large-history", duration: 2 * time.Minute, caughtBy: []string{"I1", "I2", "I9", "I19"},
		},
		{
			name: "left-is-deleted", file: "pkg/dynwatch/internal/decide/decide.go",
			old:    "s.RV != k.RV:\n\t\treturn Decision{}\n\tcase r.Selects:\n\t\treturn Decision{Op: event.Deleted, Ask: true, IfExists: event.Left}",
			new:    "s.RV != k.RV:\n\t\treturn Decision{}\n\tcase r.Selects:\n\t\treturn Decision{Op: event.Deleted, Ask: true, IfExists: event.Deleted}",
			faults: "N7-reset-watches", caughtBy: []string{"I3", "I5"},
		},
		{
			name: "namespaces-of-the-mark-forgotten", file: "pkg/dynwatch/internal/selection/mark.go",
			old: "return c.Mark().Hash == m.Hash", new: "return c.Mark().Hash == m.Hash || m.Hash != 0",
			faults: "N1-kill-informd,N1-stop-informd", caughtBy: []string{"I1", "I2", "I3", "I9"},
		},
		{
			name: "one-changed-field-is-not-enough", file: "pkg/dynwatch/internal/emit/filters.go",
			old: "held = held && i >= f.entry", new: "held = held && i+1 >= f.entry",
			faults: "N7-reset-watches", caughtBy: []string{"I1", "I2", "I9"},
		},
		{
			name: "filters-forgotten-at-restart", file: "pkg/dynwatch/internal/target/restore.go",
			old: "e.Ordinal, uint32(e.Epoch)", new: "e.Ordinal, uint32(e.Epoch)+1",
			faults: "N1-kill-informd", caughtBy: []string{"I20"},
		},
		{
			name: "rows-before-the-copy", file: "pkg/journal/internal/wal/barrier.go",
			old: "!b.synced.before(b.withheld[0].end) && len(b.followers.behind(b.withheld[0].end)) == 0 {", new: "!b.synced.before(b.withheld[0].end) {",
			faults: "N19-lose-leader-over-compaction", informds: 2, duration: 90 * time.Second, caughtBy: []string{"I1", "I3", "I4", "I6", "I12", "I14"},
		},
		{
			name: "copy-trusted-that-is-behind", file: "internal/replica/candidate.go",
			old: "(c.mirror.Own() || c.mirror.Whole()) && now.counts(c.client.me)", new: "c.mirror.Whole()",
			faults: "N19-lose-leader-of-one-behind", informds: 2, caughtBy: []string{"I1", "I3", "I4", "I6", "I12", "I14"},
		},
		{
			name: "no-fence", file: "internal/daemon/replica.go",
			old: "held, release, err := f.leading.Hold(ctx)", new: "held, release, err := ctx, func() {}, error(nil)",
			faults: "N19-isolate-leader,N14-webhook-timeouts", informds: 2, duration: 90 * time.Second, caughtBy: []string{"I12"},
		},
	}
}

// apply returns the file with the bug in it.
func (m mutant) apply() ([]byte, bool, error) {
	content, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(m.file)))
	if err != nil {
		return nil, false, err
	}
	once := bytes.Count(content, []byte(m.old)) == 1
	return bytes.Replace(content, []byte(m.old), []byte(m.new), 1), once, nil
}

// TestMutantsFit: the bugs are about the code as it is, and build. TestMutants, behind the
// build tag chaos, runs the harness against each of them.
func TestMutantsFit(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants() {
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		names[m.name] = true
		t.Run(m.name, func(t *testing.T) { buildMutant(t, m, "./"+path.Dir(m.file), os.DevNull) })
	}
}

// buildMutant builds a package with the bug; the checkout stays as it is.
func buildMutant(t *testing.T, m mutant, pkg, binary string) {
	t.Helper()
	content, once, err := m.apply()
	if err != nil || !once {
		t.Fatalf("the bug does not fit: %v", err)
	}
	dir := t.TempDir()
	module, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	file := filepath.Join(dir, "mutant.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, filepath.FromSlash(m.file)): file}})
	must(t, err)
	list := filepath.Join(dir, "overlay.json")
	for path, text := range map[string][]byte{file: content, list: overlay} {
		must(t, os.WriteFile(path, text, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "-trimpath", "-o", binary, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
}
