package dynwatch_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch"
)

// What was found about etcd for one target is not looked for again for the next.
func TestPlanSharesWhatEtcdHas(t *testing.T) {
	api := newFakeAPI(t)
	api.rev, api.oldest, api.compacted = 1_000_000, 990_000, 900_000
	wanted := things()
	for i := range 40 {
		wanted.Namespaces = append(wanted.Namespaces, fmt.Sprintf("ns-%d", i))
	}
	all, err := dynwatch.Plan(t.Context(), api.config(), []dynwatch.Resource{wanted}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Targets {
		if p.State != dynwatch.Ready || p.WatchFrom != 990_000 || p.EtcdFrom < 900_000 || p.EtcdFrom > 904_000 {
			t.Errorf("%+v", p)
		}
	}
	if n := api.requestsWith("resourceVersionMatch"); n > 4*25+36*2 {
		t.Errorf("%d lists at revisions for %d targets", n, len(all.Targets))
	}
}

// Nor is it believed: Events are often in an etcd of their own.
func TestPlanOfTwoEtcds(t *testing.T) {
	api := newFakeAPI(t)
	api.rev, api.oldest = 1_000_000, 990_000
	compacted := func(namespace string) uint64 {
		if strings.HasPrefix(namespace, "b-") {
			return 500_000
		}
		return 900_000
	}
	api.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		_, rest, _ := strings.Cut(r.URL.Path, "/namespaces/")
		namespace, _, _ := strings.Cut(rest, "/")
		at, err := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
		old := err == nil && r.URL.Query().Get("watch") == "" && at < compacted(namespace)
		if old {
			writeStatus(w, 410, "Expired", "The provided resource version is too old")
		}
		return old
	}
	wanted := things()
	for i := range 10 {
		wanted.Namespaces = append(wanted.Namespaces, fmt.Sprintf("b-%d", i), fmt.Sprintf("a-%d", i))
	}
	all, err := dynwatch.Plan(t.Context(), api.config(), []dynwatch.Resource{wanted}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Targets {
		from := compacted(p.Namespace)
		if slack := (1_000_000 - from) / 32; p.EtcdFrom < from || p.EtcdFrom > from+slack {
			t.Errorf("etcd from %d, want %d to %d: %+v", p.EtcdFrom, from, from+slack, p)
		}
	}
}

// A watch that is silent has been accepted, and while it is looked at, other targets
// are asked about.
func TestPlanOfWhatIsQuiet(t *testing.T) {
	api := newFakeAPI(t)
	api.slow = func(*http.Request) bool { return true }
	wanted := things()
	for i := range 63 {
		wanted.Namespaces = append(wanted.Namespaces, fmt.Sprintf("ns-%d", i))
	}
	begin := time.Now()
	all, err := dynwatch.Plan(t.Context(), api.config(), []dynwatch.Resource{wanted}, 0)
	if err != nil || len(all.Targets) != 63 {
		t.Fatalf("%v, %d plans", err, len(all.Targets))
	}
	if took := time.Since(begin); took > deadline/2 { // one after the other they take a second each
		t.Errorf("it took %v", took)
	}
	for _, p := range all.Targets {
		if p.State != dynwatch.Ready || p.WatchFrom != 1 || p.Reason != "" {
			t.Errorf("%+v", p)
		}
	}
}
