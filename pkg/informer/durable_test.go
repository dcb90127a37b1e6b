package informer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/cache"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/informer"
	"github.com/informd/informd/pkg/informer/informertest"
	"github.com/informd/informd/pkg/journal"
)

// process is a program with an informer of ConfigMaps over a journal.
type process struct {
	api     *fakeAPI
	factory *informer.Factory
	handler recorder
	log     *journal.Journal
	end     func()

	mu    sync.Mutex
	lists []string // the queries of its lists
}

// RoundTrip notes lists, except that of no object, which shows the newest resourceVersion.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if strings.HasSuffix(r.URL.Path, "/configmaps") && query.Get("watch") == "" && !strings.Contains(query.Get("fieldSelector"), "no-object") {
		p.mu.Lock()
		p.lists = append(p.lists, r.URL.RawQuery)
		p.mu.Unlock()
	}
	return p.api.RoundTrip(r)
}

// startProcess starts a program over the journal of a directory, with one handler, which has had the first
// list: an end before that has the next process repeat it.
func startProcess(t *testing.T, api *fakeAPI, dir string, handler cache.ResourceEventHandler, o informer.Options) *process {
	t.Helper()
	p, start := newProcess(t, api, dir, o)
	i := p.factory.ForResource(configs()).Informer()
	if handler == nil {
		handler = &p.handler
	}
	registration := handle(t, i, handler)
	start()
	eventually(t, "the handler is synced", registration.HasSynced)
	return p
}

// newProcess makes a program over the journal of a directory. Start starts its informers.
func newProcess(t *testing.T, api *fakeAPI, dir string, o informer.Options) (p *process, start func()) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	log, err := journal.Open(journal.Config{Dir: dir, Cluster: "test", Logger: quiet})
	must(t, err)
	p = &process{api: api, log: log}
	config := api.config()
	config.Wrap(func(http.RoundTripper) http.RoundTripper { return p })
	if _, err := informer.NewFactory(api.config(), informer.Options{Journal: log, Cluster: "other"}); err == nil || !strings.Contains(err.Error(), `cluster "test"`) {
		t.Errorf("error %v, want that the journal is of another cluster", err)
	}
	o.Journal, o.Logger = log, quiet
	if p.factory, err = informer.NewFactory(config, o); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	p.end = sync.OnceFunc(func() {
		close(stop)
		p.factory.Shutdown()
		if err := log.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(p.end)
	return p, func() { p.factory.Start(stop) }
}

// leftBy returns the directory of the journal of a program that had all objects and has ended.
func leftBy(t *testing.T, api *fakeAPI, o informer.Options) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "journal")
	startProcess(t, api, dir, nil, o).end()
	return dir
}

func (p *process) keys() string {
	keys := p.factory.ForResource(configs()).Informer().GetStore().ListKeys()
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// TestWarmRestart: the second process has all objects without a list, and its handler gets only
// the changes of the time between.
func TestWarmRestart(t *testing.T) {
	api := newFakeAPI(t)
	ignore := goleak.IgnoreCurrent()
	for _, name := range []string{"changed", "deleted", "recreated", "same"} {
		api.put("configmaps", "a", name, map[string]any{"data": map[string]any{"k": name}})
	}
	dir := filepath.Join(t.TempDir(), "journal")
	first := startProcess(t, api, dir, nil, informer.Options{})
	first.handler.wants(t, "add changed true", "add deleted true", "add recreated true", "add same true")
	api.put("configmaps", "a", "late", nil)
	first.handler.wants(t, "add changed true", "add deleted true", "add recreated true", "add same true", "add late false")
	first.end()

	api.put("configmaps", "a", "changed", map[string]any{"data": map[string]any{"k": "new"}})
	api.delete("configmaps", "a", "deleted")
	api.delete("configmaps", "a", "recreated")
	api.put("configmaps", "a", "recreated", nil)
	api.put("configmaps", "a", "new", nil)
	second := startProcess(t, api, dir, nil, informer.Options{})
	eventually(t, "the changes of the time between", func() bool { return strings.Count(second.handler.String(), ",") == 4 })
	calls := strings.NewReplacer(" true", "", " false", "").Replace(second.handler.String())
	if want := "update changed, delete deleted, delete recreated, add recreated, add new"; calls != want {
		t.Errorf("calls\n got %s\nwant %s", calls, want)
	}
	if keys := second.keys(); keys != "a/changed a/late a/new a/recreated a/same" {
		t.Errorf("keys %s", keys)
	}
	if len(second.lists) > 0 {
		t.Errorf("the second process has made lists: %q", second.lists)
	}
	if err := second.factory.WaitFor(t.Context(), configs(), api.revision()); err != nil {
		t.Error(err)
	}
	second.end()

	third := startProcess(t, api, dir, nil, informer.Options{})
	if keys := third.keys(); keys != "a/changed a/late a/new a/recreated a/same" || third.handler.String() != "" {
		t.Errorf("without a change: keys %s, calls %s", keys, &third.handler)
	}
	var late recorder
	handle(t, third.factory.ForResource(configs()).Informer(), &late)
	late.wants(t, "add changed true", "add late true", "add new true", "add recreated true", "add same true")
	third.end()
	goleak.VerifyNone(t, ignore)
}

// TestUnhandledChangesComeAgain: the first process ends while its handler is called.
func TestUnhandledChangesComeAgain(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	dir := filepath.Join(t.TempDir(), "journal")
	var seen recorder
	called, release := make(chan struct{}, 10), make(chan struct{})
	first := startProcess(t, api, dir, cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { seen.add("add " + nameOf(o)) },
		UpdateFunc: func(any, any) {
			called <- struct{}{}
			<-release
		},
	}, informer.Options{})
	seen.wants(t, "add one")
	api.put("configmaps", "a", "one", nil) // the handler is called for it, and returns
	<-called
	api.put("configmaps", "a", "two", nil) // waits behind it
	must(t, first.factory.WaitFor(t.Context(), configs(), api.revision()))
	endBlocked(t, first, release)
	second := startProcess(t, api, dir, nil, informer.Options{})
	second.handler.wants(t, "add two true")
	second.end()
}

// TestJournalRefusesSecrets: their values would be on the disk.
func TestJournalRefusesSecrets(t *testing.T) {
	api := newFakeAPI(t)
	p := startProcess(t, api, t.TempDir(), nil, informer.Options{})
	whole, release := p.factory.Use(secrets())
	defer release()
	eventually(t, "the informer of Secrets ends", whole.Informer().IsStopped)
	metadata, releaseMetadata := p.factory.UseMetadata(secrets())
	defer releaseMetadata()
	eventually(t, "the informer of their metadata is synced", metadata.Informer().HasSynced)
	second, releaseSecond := p.factory.UseMetadata(configs()) // the journal has them whole
	defer releaseSecond()
	eventually(t, "the second informer of a resource ends", second.Informer().IsStopped)
}

// TestHandlerAddedBeforeRefill: a handler that is added after Start, and before the store is full,
// begins with all objects.
func TestHandlerAddedBeforeRefill(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	api.put("configmaps", "a", "gone", nil)
	dir := leftBy(t, api, informer.Options{})
	api.put("configmaps", "a", "two", nil)
	api.delete("configmaps", "a", "gone")
	second, start := newProcess(t, api, dir, informer.Options{})
	i := second.factory.ForResource(configs()).Informer()
	handle(t, i, &second.handler)
	start()
	var late recorder
	synced := handle(t, i, &late)
	eventually(t, "the late handler is synced", synced.HasSynced)
	eventually(t, "the changes", func() bool { return strings.Contains(second.handler.String(), "delete gone") })
	must(t, second.factory.WaitFor(t.Context(), configs(), api.revision()))
	eventually(t, "all objects", func() bool {
		return strings.Contains(late.String(), "add one") && strings.Contains(late.String(), "add two")
	})
	if calls := late.String(); !strings.Contains(calls, "add one true") || !strings.Contains(calls, "add two") || strings.Contains(calls, "update") {
		t.Errorf("calls of the late handler: %s", calls)
	}
	if calls := second.handler.String(); strings.Contains(calls, "add one") {
		t.Errorf("calls of the early handler: %s", calls)
	}
	second.end()
}

// endBlocked ends a process whose handler blocks until release is closed.
func endBlocked(t *testing.T, p *process, release chan struct{}) {
	t.Helper()
	ended := make(chan struct{})
	go func() { p.end(); close(ended) }()
	eventually(t, "the informer stops", p.factory.ForResource(configs()).Informer().IsStopped)
	close(release)
	<-ended
}

// TestUnhandledFirstList: the first process ends in its first list, before its handler has returned. The
// next one is synced although its handler blocks as well.
func TestUnhandledFirstList(t *testing.T) {
	api := newFakeAPI(t)
	api.put("pods", "a", "one", nil)
	const objects = 700 // events of small pages reach the journal together with those of the next one
	for n := range objects {
		api.put("configmaps", "a", fmt.Sprint("object-", n), nil)
	}
	api.PageLimit(objects - 1)
	hold := make(chan struct{})
	api.Inject(informertest.Fault{Verb: informertest.Page, Resource: configs().GroupResource(), Hold: hold})
	dir := filepath.Join(t.TempDir(), "journal")
	first, start := newProcess(t, api, dir, informer.Options{})
	other := first.factory.ForResource(pods()).Informer()
	start() // so that the other informer begins with a snapshot of the journal
	eventually(t, "the informer of Pods is synced", other.HasSynced)
	called, release := make(chan struct{}, 10), make(chan struct{})
	handle(t, first.factory.ForResource(configs()).Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(any) { called <- struct{}{}; <-release }})
	start()
	<-called
	endBlocked(t, first, release)

	release = make(chan struct{})
	second, start := newProcess(t, api, dir, informer.Options{})
	i := second.factory.ForResource(configs()).Informer()
	handle(t, i, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { called <- struct{}{}; <-release }})
	start()
	<-called // the journal has the rest of the list later
	close(hold)
	eventually(t, "the informer is synced", i.HasSynced)
	if keys := i.GetStore().ListKeys(); len(keys) != objects {
		t.Errorf("%d objects, want %d", len(keys), objects)
	}
	endBlocked(t, second, release)
}

// TestJournalOfOtherObjects: the journal has objects that the informer would not watch, or not whole. It
// is refused, and the earlier program can continue.
func TestJournalOfOtherObjects(t *testing.T) {
	for name, o := range map[string]informer.Options{
		"namespace": {Namespace: "a"}, "labels": {LabelSelector: "app=x"}, "fields": {FieldSelector: "metadata.name=one"},
	} {
		t.Run(name, func(t *testing.T) {
			api := newFakeAPI(t)
			api.put("configmaps", "a", "one", nil)
			dir := leftBy(t, api, informer.Options{})
			second, start := newProcess(t, api, dir, o)
			i := second.factory.ForResource(configs()).Informer()
			start()
			eventually(t, "the informer ends", i.IsStopped)
			second.end()
			third := startProcess(t, api, dir, nil, informer.Options{})
			if keys := third.keys(); keys != "a/one" || third.handler.String() != "" {
				t.Errorf("keys %s, calls %s", keys, &third.handler)
			}
			third.end()
		})
	}
	t.Run("metadata", func(t *testing.T) {
		api := newFakeAPI(t)
		api.put("configmaps", "a", "one", nil)
		dir := filepath.Join(t.TempDir(), "journal")
		first, start := newProcess(t, api, dir, informer.Options{})
		metadata := first.factory.ForMetadata(configs()).Informer()
		start()
		eventually(t, "the informer of metadata is synced", metadata.HasSynced)
		first.end()
		second, start := newProcess(t, api, dir, informer.Options{})
		whole := second.factory.ForResource(configs()).Informer()
		start()
		eventually(t, "the informer of whole objects ends", whole.IsStopped)
		second.end()
	})
}

// TestUnusableJournalEndsInformer: its store would be stale, so that callers must see the end.
func TestUnusableJournalEndsInformer(t *testing.T) {
	api := newFakeAPI(t)
	p := startProcess(t, api, filepath.Join(t.TempDir(), "journal"), nil, informer.Options{})
	must(t, p.log.Close())
	api.put("configmaps", "a", "one", nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.factory.WaitFor(ctx, configs(), api.revision()); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that the informer has ended", err)
	}
}

// TestStopAndStartWithJournal: in one process, an informer continues where its predecessor ended, also if
// it is made while that one waits for a handler.
func TestStopAndStartWithJournal(t *testing.T) {
	api := newFakeAPI(t)
	ignore := goleak.IgnoreCurrent()
	api.put("configmaps", "a", "one", nil)
	p, start := newProcess(t, api, filepath.Join(t.TempDir(), "journal"), informer.Options{})
	first := p.factory.ForResource(configs()).Informer()
	called, release := make(chan struct{}), make(chan struct{})
	handle(t, first, cache.ResourceEventHandlerFuncs{AddFunc: func(any) { called <- struct{}{}; <-release }})
	start()
	<-called
	stopped := make(chan struct{})
	go func() { p.factory.Stop(configs()); close(stopped) }()
	eventually(t, "the informer stops", first.IsStopped)
	api.put("configmaps", "a", "two", nil)
	second := p.factory.ForResource(configs()).Informer()
	handle(t, second, &p.handler)
	start()
	close(release)
	<-stopped
	eventually(t, "the second informer is synced", second.HasSynced)
	eventually(t, "the change", func() bool { return strings.Contains(p.handler.String(), "add two") })
	if keys := p.keys(); keys != "a/one a/two" {
		t.Errorf("keys %s", keys)
	}
	p.end()
	goleak.VerifyNone(t, ignore)
}

// TestWarmRestartWithoutAPIServer: the store is full before the API server answers.
func TestWarmRestartWithoutAPIServer(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	dir := leftBy(t, api, informer.Options{})
	remove := api.Inject(informertest.Fault{Code: 503})
	second := startProcess(t, api, dir, nil, informer.Options{})
	if keys := second.keys(); keys != "a/one" {
		t.Errorf("keys %s", keys)
	}
	api.put("configmaps", "a", "two", nil)
	remove()
	second.handler.wants(t, "add two false")
	second.end()
}

// damagedJournal has a process leave 40 objects in a journal, and damages its segment. It returns the keys.
func damagedJournal(t *testing.T, api *fakeAPI, dir string, damage func(text []byte) []byte) (keys string) {
	t.Helper()
	put := func(from, to int) {
		for n := range to - from {
			api.put("configmaps", "a", fmt.Sprint("object-", from+n), map[string]any{"data": map[string]any{"k": "value"}})
		}
	}
	put(0, 20)
	first := startProcess(t, api, dir, nil, informer.Options{})
	put(20, 40) // behind the synced event
	must(t, first.factory.WaitFor(t.Context(), configs(), api.revision()))
	keys = first.keys()
	first.end()
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments %q (%v)", segments, err)
	}
	text, err := os.ReadFile(segments[0])
	must(t, err)
	must(t, os.WriteFile(segments[0], damage(text), 0o600))
	if err := os.Remove(strings.TrimSuffix(segments[0], ".log") + ".idx"); err != nil { // so that the start reads the segment
		t.Fatal(err)
	}
	return keys
}

// TestDamagedJournal: the states of a damaged journal may lack objects, so the informer is not
// synced before the next list. That is the same if a process without informers has found the damage.
func TestDamagedJournal(t *testing.T) {
	damages := map[string]func(text []byte) []byte{
		"changed": func(text []byte) []byte { text[len(text)/2] ^= 0xff; return text },
		"cut":     func(text []byte) []byte { return text[:len(text)*2/3] },
	}
	for name, damage := range damages {
		for _, between := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, process between %v", name, between), func(t *testing.T) { testDamagedJournal(t, damage, between) })
		}
	}
}

func testDamagedJournal(t *testing.T, damage func(text []byte) []byte, between bool) {
	api, dir := newFakeAPI(t), filepath.Join(t.TempDir(), "journal")
	keys := damagedJournal(t, api, dir, damage)
	if between {
		unused, _ := newProcess(t, api, dir, informer.Options{})
		unused.end()
	}
	hold := make(chan struct{})
	api.Inject(informertest.Fault{Verb: informertest.List, Resource: configs().GroupResource(), Hold: hold})
	second, start := newProcess(t, api, dir, informer.Options{})
	i := second.factory.ForResource(configs()).Informer()
	start()
	eventually(t, "the store has the rest of the journal", func() bool { return len(i.GetStore().ListKeys()) > 0 })
	polls := 0
	eventually(t, "the end of the journal", func() bool { polls++; return polls > 40 })
	if i.HasSynced() {
		t.Errorf("synced with the keys %s before the list", second.keys())
	}
	close(hold)
	eventually(t, "the informer is synced", i.HasSynced)
	if got := second.keys(); got != keys {
		t.Errorf("keys %s, want %s", got, keys)
	}
	second.end()
}

// TestSyncedAfterInterruptedList: the first process ends in its first list. In the next one, the
// target completes the list long before the handlers allow the informer to read it.
func TestSyncedAfterInterruptedList(t *testing.T) {
	const first, objects = 700, 1400
	api := newFakeAPI(t)
	for n := range objects {
		api.put("configmaps", "a", fmt.Sprintf("object-%04d", n), nil)
	}
	api.PageLimit(first)
	hold := make(chan struct{})
	api.Inject(informertest.Fault{Verb: informertest.Page, Resource: configs().GroupResource(), Hold: hold})
	dir := filepath.Join(t.TempDir(), "journal")
	before, start := newProcess(t, api, dir, informer.Options{})
	i := before.factory.ForResource(configs()).Informer()
	start()
	eventually(t, "a part of the list", func() bool { return len(i.GetStore().ListKeys()) > first/2 })
	before.end()

	second, start := newProcess(t, api, dir, informer.Options{QueueLimit: 10})
	i = second.factory.ForResource(configs()).Informer()
	step := make(chan struct{})
	handle(t, i, cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if nameOf(o) >= fmt.Sprintf("object-%04d", first) {
			<-step
		}
	}})
	all, err := second.log.Open("test", journal.FromSnapshot)
	must(t, err)
	start()
	close(hold)
	for synced := false; !synced; {
		entries, err := all.Read(t.Context(), 100)
		must(t, err)
		synced = slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Event.Op == event.Synced })
	}
	// One call in 5 ms, so that the informer has time to ask for the state of the target.
	eventually(t, "the informer is synced", func() bool {
		select {
		case step <- struct{}{}:
		default:
		}
		return i.HasSynced()
	})
	if keys := i.GetStore().ListKeys(); len(keys) != objects {
		t.Errorf("synced with %d objects, want %d", len(keys), objects)
	}
	close(step)
	second.end()
}

// TestPositionAfterRollbackAndRestart: the position of a warm store is of the epoch after a rollback, so
// that recovered changes of this epoch keep it.
func TestPositionAfterRollbackAndRestart(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	backup := api.Revision()
	dir := filepath.Join(t.TempDir(), "journal")
	first := startProcess(t, api, dir, nil, informer.Options{})
	api.put("configmaps", "a", "two", nil)
	eventually(t, "the object before the rollback", func() bool { return first.keys() == "a/one a/two" })
	api.Outage(func() { api.Rollback(backup) })
	eventually(t, "the rollback", func() bool { return first.keys() == "a/one" })
	api.put("configmaps", "a", "three", nil)
	eventually(t, "the object after the rollback", func() bool { return strings.Contains(first.handler.String(), "add three") })
	first.end()

	reached := api.revision()
	api.put("configmaps", "a", "three", map[string]any{"data": map[string]any{"k": "new"}})
	api.Compact() // a list finds the change
	second := startProcess(t, api, dir, nil, informer.Options{})
	second.handler.wants(t, "update three")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := second.factory.WaitFor(ctx, configs(), reached); err != nil {
		t.Error(err)
	}
	second.end()
}

// TestWarmRestartOfNamespace: the journal has the states of the namespace.
func TestWarmRestartOfNamespace(t *testing.T) {
	api := newFakeAPI(t)
	for _, name := range []string{"kept", "gone"} {
		api.put("configmaps", "a", name, nil)
		api.put("configmaps", "b", name, nil)
	}
	dir := filepath.Join(t.TempDir(), "journal")
	first := startProcess(t, api, dir, nil, informer.Options{Namespace: "a"})
	first.handler.wants(t, "add gone true", "add kept true")
	first.end()
	api.delete("configmaps", "a", "gone")
	second := startProcess(t, api, dir, nil, informer.Options{Namespace: "a"})
	second.handler.wants(t, "delete gone")
	if keys := second.keys(); keys != "a/kept" || len(second.lists) > 0 {
		t.Errorf("keys %s, lists %q", keys, second.lists)
	}
	second.end()
}

// TestWarmRestartWithLargeObjects: objects of 1.5 MB, which is the most that etcd takes, and texts of
// any kind come back as they were.
func TestWarmRestartWithLargeObjects(t *testing.T) {
	api := newFakeAPI(t)
	large := strings.Repeat("0123456789abcde ", 1_500_000/16)
	hostile := "\x01\u2028\u202e\"<\\>𝄞 {\"final\":false}"
	for n := range 3 {
		api.put("configmaps", "a", fmt.Sprint("large-", n), map[string]any{"data": map[string]any{"k": fmt.Sprint(n) + large, "h": hostile}})
	}
	api.put("configmaps", "a", "a.b.c-0", map[string]any{"metadata": map[string]any{"labels": map[string]any{"x": hostile}}})
	dir := filepath.Join(t.TempDir(), "journal")
	content := func(p *process) string {
		all, err := json.Marshal(p.factory.ForResource(configs()).Informer().GetStore().List())
		must(t, err)
		return string(all)
	}
	first := startProcess(t, api, dir, nil, informer.Options{})
	want := content(first)
	first.end()
	second := startProcess(t, api, dir, nil, informer.Options{})
	if got := content(second); got != want || len(got) < 4_500_000 {
		t.Errorf("%d bytes of objects after the restart, %d before, or others", len(got), len(want))
	}
	second.end()
}

// TestHandlerAddedWhileRunRefills: with Run instead of Start, a handler that is added while the store
// is being filled begins with all objects as well.
func TestHandlerAddedWhileRunRefills(t *testing.T) {
	api := newFakeAPI(t)
	api.put("configmaps", "a", "one", nil)
	api.put("configmaps", "a", "two", nil)
	dir := leftBy(t, api, informer.Options{})
	second, _ := newProcess(t, api, dir, informer.Options{})
	i := second.factory.ForResource(configs()).Informer()
	filling, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	if err := i.SetTransform(func(o any) (any, error) {
		once.Do(func() { close(filling); <-proceed })
		return o, nil
	}); err != nil {
		t.Fatal(err)
	}
	running := &podInformer{SharedIndexInformer: i, done: make(chan struct{})}
	running.start(t)
	<-filling
	var late recorder
	synced := handle(t, i, &late)
	close(proceed)
	eventually(t, "the late handler is synced", synced.HasSynced)
	late.wants(t, "add one true", "add two true")
	running.end()
	second.end()
}
