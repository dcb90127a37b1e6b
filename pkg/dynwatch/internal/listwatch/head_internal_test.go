package listwatch

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// podServer answers lists of Pods as some API server does.
type podServer struct {
	// ignoreLimit and ignoreFields: it does not know these options. RefuseFields: it
	// answers 400 to the second.
	ignoreLimit, ignoreFields, refuseFields bool
	// broken: it cannot convert any object, so that each list with one fails.
	broken bool
	// metadataLast: the revision comes behind the items.
	metadataLast bool
	pods         int

	sent atomic.Int64 // Pods, as far as they were taken
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	fields := q.Get("fieldSelector")
	if s.refuseFields && fields != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":400,"reason":"BadRequest"}`)
		return
	}
	pods := s.pods
	if fields != "" && !s.ignoreFields {
		pods = 0 // no test asks for one that there is
	}
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && !s.ignoreLimit {
		pods = min(pods, limit)
	}
	if s.broken && pods > 0 {
		http.Error(w, "conversion webhook failed", http.StatusInternalServerError)
		return
	}
	const metadata = `"metadata":{"resourceVersion":"4711"}`
	before, behind := metadata+",", ""
	if s.metadataLast {
		before, behind = "", ","+metadata
	}
	b := bufio.NewWriterSize(w, 16<<10)
	fmt.Fprintf(b, `{"kind":"PodList",%s"items":[`, before)
	filler := strings.Repeat("x", 8000)
	for i := range pods {
		comma := ","
		if i == 0 {
			comma = ""
		}
		if _, err := fmt.Fprintf(b, `%s{"metadata":{"name":"p%d","namespace":"a","uid":"u%[2]d","resourceVersion":"%d"},"spec":%q}`, comma, i, i+1, filler); err != nil {
			return
		}
		s.sent.Add(1)
	}
	fmt.Fprintf(b, "]%s}", behind)
	_ = b.Flush()
}

// TestRevisionCostsNoObjects: the newest revision is known without an object being decoded
// by the server or read by informd, on servers that know less than Kubernetes' as well.
func TestRevisionCostsNoObjects(t *testing.T) {
	const pods, few = 2_000, 300 // what fits the buffers on the way
	for name, test := range map[string]struct {
		server *podServer
		most   int64
	}{
		"Kubernetes":                               {&podServer{}, 0},
		"broken conversion":                        {&podServer{broken: true}, 0},
		"ignores the limit":                        {&podServer{ignoreLimit: true, metadataLast: true}, 0},
		"ignores field selectors":                  {&podServer{ignoreFields: true, metadataLast: true}, 2},
		"refuses field selectors":                  {&podServer{refuseFields: true, metadataLast: true}, 2},
		"ignores both":                             {&podServer{ignoreLimit: true, ignoreFields: true}, 2 * few},
		"refuses field selectors, ignores limit":   {&podServer{refuseFields: true, ignoreLimit: true}, 2 * few},
		"ignores both, its revision is at the end": {&podServer{ignoreLimit: true, ignoreFields: true, metadataLast: true}, 2 * (pods + few)},
	} {
		t.Run(name, func(t *testing.T) {
			test.server.pods = pods
			server := httptest.NewServer(test.server)
			t.Cleanup(server.Close)
			s := podSource(t, &rest.Config{Host: server.URL})
			t.Cleanup(s.Clients.Close)
			rv, err := s.Revision(t.Context())
			elsewhere, err2 := s.RevisionElsewhere(t.Context())
			if rv != 4711 || elsewhere != 4711 || err != nil || err2 != nil {
				t.Errorf("revisions %d (%v) and %d (%v), want 4711", rv, err, elsewhere, err2)
			}
			server.Close() // waits for the answers
			if sent := test.server.sent.Load(); sent > test.most {
				t.Errorf("the server has sent %d objects, want at most %d", sent, test.most)
			}
		})
	}
}

// TestOneObjectIsNotAllObjects: a server that ignores field selectors has its list of all
// objects neither read nor taken for the one that was asked for.
func TestOneObjectIsNotAllObjects(t *testing.T) {
	p := &podServer{ignoreFields: true, ignoreLimit: true, pods: 20_000}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	s := podSource(t, &rest.Config{Host: server.URL})
	t.Cleanup(s.Clients.Close)
	if o, there, err := s.ObjectAt(t.Context(), "a", "p300", 0); !Unsupported(err) {
		t.Errorf("found %s, %v: %v", o.Name, there, err)
	}
	server.Close()
	if sent := p.sent.Load(); sent > 300 {
		t.Errorf("the server has sent %d objects", sent)
	}
}

// deniedUser takes a refusal for something that lasts, as the watches of definitions and of Namespaces do.
type deniedUser struct{ MetadataUser }

func (deniedUser) Failed(err error) bool { return apierrors.IsForbidden(err) }

// TestRefusalAfterAnOutage: an API server that has just started refuses everything for a moment. After an outage
// the pause is not one of those between many refusals: meanwhile nobody would notice what is installed.
func TestRefusalAfterAnOutage(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil)
	unavailable := apierrors.NewInternalError(kube.ErrNotServed)
	m := &MetadataWatch{User: deniedUser{}, timing: Timing{
		Backoff: 200 * time.Millisecond, BackoffCap: 30 * time.Second, WaitingCap: 5 * time.Second, DeniedCap: 5 * time.Minute,
	}}
	m.resetPause()
	for range 20 {
		if d := m.fail(unavailable); d > m.timing.BackoffCap {
			t.Fatalf("the pause of an outage is %v", d)
		}
	}
	if d := m.fail(forbidden); d != m.timing.WaitingCap {
		t.Errorf("the pause after one refusal is %v, want %v", d, m.timing.WaitingCap)
	}
	for range 20 {
		m.fail(forbidden)
	}
	if d := m.fail(forbidden); d != m.timing.DeniedCap {
		t.Errorf("the pause after many refusals is %v, want %v", d, m.timing.DeniedCap)
	}
	if d := m.fail(unavailable); d > time.Second {
		t.Errorf("the pause after the first other error is %v", d)
	}
}

// TestLoses: a selection loses no object if what it selects by cannot change.
func TestLoses(t *testing.T) {
	pods, things := schema.GroupVersionResource{Version: "v1", Resource: "pods"}, schema.GroupVersionResource{Group: "g", Resource: "pods"}
	for _, c := range []struct {
		of            schema.GroupVersionResource
		fields, label string
		loses         bool
		name          string
	}{
		{of: pods},
		{of: pods, fields: "metadata.name=a", name: "a"},
		{of: things, fields: "metadata.namespace!=x,metadata.name==a", name: "a"},
		{of: things, fields: "metadata.name!=a"},
		{of: pods, fields: "metadata.name="},
		{of: pods, fields: "metadata.name=a", label: "on=yes", loses: true, name: "a"},
		{of: pods, fields: "spec.nodeName=n1"},
		{of: pods, fields: "spec.nodeName!="},
		{of: pods, fields: "spec.nodeName=", loses: true},
		{of: pods, fields: "spec.nodeName!=n1", loses: true},
		{of: pods, fields: "spec.nodeName=n1,status.phase=Running", loses: true},
		{of: things, fields: "spec.nodeName=n1", loses: true},
		{of: pods, label: "on=yes", loses: true},
	} {
		r := Resource{GVR: c.of, FieldSelector: c.fields, LabelSelector: c.label}
		if got := r.Loses(); got != c.loses {
			t.Errorf("%s %q %q: loses %v", c.of, c.fields, c.label, got)
		}
		if name, ok := SelectedName(c.fields); name != c.name || ok != (c.name != "") {
			t.Errorf("%q: name %q, %v", c.fields, name, ok)
		}
	}
}
