package delivery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/informd/informd/test/cluster"
	"github.com/informd/informd/test/e2e"
)

// written is a state of an object that the API server has answered with. After a deletion there
// is none.
type written struct {
	revision uint64
	object   map[string]any
}

// historian writes objects at random and keeps what the API server answered.
type historian struct {
	t    *testing.T
	maps dynamic.ResourceInterface
	made map[string][]written
}

// newHistorian makes each object with some changes, up to 25, and now and then a deletion.
func newHistorian(t *testing.T, client dynamic.Interface, objects int) *historian {
	t.Helper()
	h := &historian{t: t, maps: client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default"), made: make(map[string][]written)}
	type result struct {
		name string
		all  []written
		err  error
	}
	results := make(chan result)
	names := make(chan string)
	var writers sync.WaitGroup
	for w := range 8 {
		random := rand.New(rand.NewPCG(7, uint64(w)))
		writers.Go(func() {
			for name := range names {
				all, err := h.write(t.Context(), name, random)
				results <- result{name, all, err}
			}
		})
	}
	go func() {
		for i := range objects {
			names <- fmt.Sprintf("object-%04d", i)
		}
		close(names)
		writers.Wait()
		close(results)
	}()
	for r := range results {
		if r.err != nil {
			t.Error(r.err)
		}
		h.made[r.name] = r.all
	}
	return h
}

func (h *historian) write(ctx context.Context, name string, random *rand.Rand) (all []written, err error) {
	changes := 1 + random.IntN(5)
	if random.IntN(20) == 0 {
		changes = 25 // more than the journal keeps
	}
	exists := false
	for n := range changes {
		var object *unstructured.Unstructured
		data := map[string]any{"n": strconv.Itoa(n), "random": strconv.FormatUint(random.Uint64(), 36)}
		switch {
		case !exists:
			object, err = h.maps.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data,
			}}, metav1.CreateOptions{})
		case random.IntN(8) == 0:
			if err = h.maps.Delete(ctx, name, metav1.DeleteOptions{}); err == nil {
				all = append(all, written{})
			}
			exists = false
			continue
		default:
			patch, _ := json.Marshal(map[string]any{"data": data}) // strings only
			object, err = h.maps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		exists = true
		revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		if err != nil {
			return nil, err
		}
		object.SetManagedFields(nil)
		all = append(all, written{revision, object.Object})
	}
	return all, nil
}

// kept is the answer of GET /history.
type kept struct {
	HistoryPerObject int
	Events           []e2e.Record
}

func history(d *e2e.Informd, object string) (k kept) {
	d.T.Helper()
	body, status := d.Ask(http.MethodGet, "/history?object="+url.QueryEscape(object))
	if err := json.Unmarshal(body, &k); err != nil || status != http.StatusOK {
		d.T.Fatalf("history of %s: %d %s: %v", object, status, body, err)
	}
	return k
}

// TestHistoryEqualsWhatWasWritten: for 1,000 objects the journal has the last states that the API
// server had, and the commands show the state at each revision and at random times.
func TestHistoryEqualsWhatWasWritten(t *testing.T) {
	const objects = 1000
	c := cluster.Start(t, cluster.Options{})
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}", Journal: e2e.LogJournal})
	d.Start()
	d.WaitForSync(1)
	h := newHistorian(t, dynamic.NewForConfigOrDie(e2e.Fast(c.RESTConfig())), objects)
	total := 0
	for _, all := range h.made {
		total += len(all)
	}
	e2e.Eventually(t, "all events are there", func() bool { return len(d.Records()) >= total })
	histories := make(map[string]kept, objects)
	for name, all := range h.made {
		k := history(d, "configmaps/default/"+name)
		histories[name] = k
		want := all[max(0, len(all)-max(k.HistoryPerObject, len(k.Events))):] // more may be there for a while
		// The journal drops what is before a deletion once every sink has it.
		deleted := slices.ContainsFunc(all, func(w written) bool { return w.object == nil })
		if n := len(k.Events); deleted && n > 0 && n < len(want) {
			want = want[len(want)-n:]
		}
		if len(k.Events) != len(want) {
			t.Errorf("%s: %d events are kept, want %d of %d", name, len(k.Events), len(want), len(all))
			continue
		}
		for i, e := range k.Events {
			if want[i].object == nil {
				if e.Op != "deleted" {
					t.Errorf("%s: event %d is %s, want its deletion", name, i, e.Op)
				}
				continue
			}
			if e.ResourceVersion != want[i].revision || !reflect.DeepEqual(decoded(t, e.Data.Object), want[i].object) {
				t.Errorf("%s: event %d is revision %d\n%s\nwant revision %d\n%v", name, i, e.ResourceVersion, e.Data.Object, want[i].revision, want[i].object)
			}
		}
	}
	checkHistories(d, histories, 4)
	if text, code := d.Command("get", "configmaps/default/object-0000", "--at", "24h"); code != 1 || !strings.Contains(text, "it was added at") {
		t.Errorf("before the history: %d %s", code, text)
	}
	if text, code := d.Command("history", "configmaps/default/none"); code != 1 || !strings.Contains(text, "no event") {
		t.Errorf("of an unknown object: %d %s", code, text)
	}
	if text, code := d.Command("history", "deployments/default/none/none/x"); code != 2 || !strings.Contains(text, "<resource>") {
		t.Errorf("of no object: %d %s", code, text)
	}
	// The same without an informd, after a crash, and the next start notices nothing.
	d.Kill()
	some := make(map[string]kept)
	for name, k := range histories {
		if some[name] = k; len(some) == 10 {
			break
		}
	}
	checkHistories(d, some, 1) // each holds the lock of the journal
	d.Start()
	d.WaitForLive(1)
	if n := len(d.Records()); n > total+2 || e2e.Count(d.Records(), "gap") > 0 {
		t.Errorf("after the commands there are %d events, before %d", n, total+2)
	}
}

// checkHistories asks `informd get` for the state of each object at a random time or revision of its
// history, with so many commands at a time.
func checkHistories(d *e2e.Informd, histories map[string]kept, commands int) {
	d.T.Helper()
	var group errgroup.Group
	group.SetLimit(commands)
	for name, k := range histories {
		group.Go(func() error { return checkStateOf(d, "configmaps/default/"+name, k.Events) })
	}
	if err := group.Wait(); err != nil {
		d.T.Error(err)
	}
}

func checkStateOf(d *e2e.Informd, object string, events []e2e.Record) error {
	times := make([]time.Time, len(events))
	for i, e := range events {
		var err error
		if times[i], err = time.Parse(time.RFC3339Nano, e.Time); err != nil {
			return err
		}
	}
	i := rand.IntN(len(events))
	at := []string{"--at", strconv.FormatUint(events[i].ResourceVersion, 10)}
	byTime := rand.IntN(2) == 0
	if byTime {
		moment := times[i]
		if i+1 < len(events) {
			moment = moment.Add(rand.N(times[i+1].Sub(moment) + time.Millisecond))
		}
		at = []string{"--at", moment.Format(time.RFC3339Nano)}
		for i+1 < len(events) && !times[i+1].After(moment) {
			i++
		}
	}
	e := events[i]
	ctx, cancel := context.WithTimeout(d.T.Context(), e2e.Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, e2e.Binary(), append([]string{"get", object, "-o", "json", "--config", d.Config}, at...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var got, want any
	switch {
	case e.Op != "deleted":
		if err = errors.Join(err, json.Unmarshal(stdout.Bytes(), &got), json.Unmarshal(e.Data.Object, &want)); err != nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("get %s %v: %w\n%s%s\nwant %s", object, at, err, &stdout, &stderr, e.Data.Object)
		}
	case byTime && (err == nil || !strings.Contains(stderr.String(), "did not exist")):
		return fmt.Errorf("get %s %v, after its deletion: %w\n%s%s", object, at, err, &stdout, &stderr)
	}
	return nil
}

func decoded(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var object unstructured.Unstructured
	if err := json.Unmarshal(text, &object.Object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return object.Object
}

// TestHistoryCommands: what they print of large objects and of control characters, while informd
// runs and after it was killed.
func TestHistoryCommands(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	d := e2e.NewInformd(t, e2e.Setup{Kubeconfig: c.Kubeconfig(), Resources: "- {resource: configmaps, namespaces: [default]}", Journal: e2e.LogJournal})
	d.Start()
	d.WaitForSync(1)
	maps := dynamic.NewForConfigOrDie(c.RESTConfig()).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	e2e.CreateConfigMap(t, maps, "a", map[string]any{"k": "before"})
	e2e.Patch(t, maps, "a", `{"data":{"k":"a\u001b[31mfter"}}`)
	e2e.Eventually(t, "both events", func() bool { return e2e.Count(d.Records(), "modified") == 1 })
	look := func(when string) {
		t.Helper()
		text := d.Must("diff", "configmaps/default/a")
		if !strings.Contains(text, "-  k: before\n") || strings.Contains(text, "\x1b") || !strings.Contains(text, "+  k: ") {
			t.Errorf("%s: diff prints\n%q", when, text)
		}
		if text := d.Must("history", "configmaps/default/a"); !strings.Contains(text, "data.k") || strings.Contains(text, "\x1b") {
			t.Errorf("%s: history prints\n%q", when, text)
		}
	}
	large := strings.Repeat("x", 1_000_000)
	e2e.CreateConfigMap(t, maps, "large", map[string]any{"k": "first", "large": large})
	for _, k := range []string{"second", "third"} {
		e2e.Patch(t, maps, "large", fmt.Sprintf(`{"data":{"k":%q}}`, k))
	}
	e2e.Eventually(t, "the large events", func() bool { return e2e.Count(d.Records(), "modified") == 3 })
	lookLarge := func(when string) {
		t.Helper()
		if text := d.Must("diff", "configmaps/default/large"); !strings.Contains(text, "-  k: second\n") || !strings.Contains(text, "+  k: third\n") {
			t.Errorf("%s: diff of a large object prints %d bytes: %.300s", when, len(text), text)
		}
		if text := d.Must("get", "configmaps/default/large", "-o", "json"); !strings.Contains(text, large) {
			t.Errorf("%s: get of a large object prints %d bytes", when, len(text))
		}
	}
	look("running")
	lookLarge("running")
	d.Kill()
	look("after kill -9")
	lookLarge("after kill -9")
}
