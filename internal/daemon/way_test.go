package daemon

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/sink"
)

// wayObjects is how many objects change, one after the other.
const wayObjects = 1000

// The places of what differs from frame to frame in wayFrame.
const (
	wayName = "web-0000000000"
	wayUID  = "3f0f5a4e-1111-4222-8333-000000000000"
	wayRV   = "1000000000"
)

// wayFrame is a frame with a Pod of about 8 KB, a third of it managedFields.
func wayFrame() []byte {
	fields := strings.Repeat(`"k:{\"name\":\"c0\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},"f:image":{},"f:livenessProbe":{".":{},"f:httpGet":{".":{},"f:path":{},"f:port":{}},"f:periodSeconds":{}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}}}},`, 9)
	container := `{"name":"c0","image":"registry.example.com/shop/web:v1.0.0","command":["/bin/web","--listen=:8080","--greeting=\"hello\" <you> & all"],"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"},`
	return fmt.Appendf(nil, `{"type":"MODIFIED","object":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"generateName":"web-","namespace":"shop","uid":%q,"resourceVersion":%q,"generation":1,"creationTimestamp":"2026-11-20T10:00:00Z","labels":{"app":"web","tier":"front"},"managedFields":[{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-11-20T10:00:03Z","fieldsType":"FieldsV1","fieldsV1":{%s"f:status":{}}}]},"spec":{"containers":[%s{"name":"last"}],"restartPolicy":"Always"},"status":{"phase":"Running"}}}`+"\n",
		wayName, wayUID, wayRV, fields, strings.Repeat(container, 5))
}

// watchBody is the body of a watch that brings as many frames as it is let to.
type watchBody struct {
	mu     sync.Mutex
	more   sync.Cond
	let    int // how many frames more
	closed bool

	frame         []byte
	rest          []byte // of the frame that is being read
	name, uid, rv int    // where these end in the frame
	n             int
}

func newWatchBody() *watchBody {
	w := &watchBody{frame: wayFrame()}
	w.more.L = &w.mu
	w.name = bytes.Index(w.frame, []byte(wayName)) + len(wayName)
	w.uid = bytes.Index(w.frame, []byte(wayUID)) + len(wayUID)
	w.rv = bytes.Index(w.frame, []byte(wayRV)) + len(wayRV)
	return w
}

// allow lets n frames more through.
func (w *watchBody) allow(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.let += n
	w.more.Broadcast()
}

// Read returns what a TLS record would hold.
func (w *watchBody) Read(p []byte) (n int, err error) {
	const record = 16 << 10
	p = p[:min(len(p), record)]
	for n < len(p) {
		if len(w.rest) == 0 && !w.next(n == 0) {
			break
		}
		copied := copy(p[n:], w.rest)
		w.rest = w.rest[copied:]
		n += copied
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// next writes the next frame, if it is let to or when it is.
func (w *watchBody) next(wait bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wait && w.let == 0 && !w.closed {
		w.more.Wait()
	}
	if w.let == 0 || w.closed {
		return false
	}
	w.let--
	w.n++
	digits(w.frame[:w.name], w.n%wayObjects)
	digits(w.frame[:w.uid], w.n%wayObjects)
	digits(w.frame[:w.rv], w.n)
	w.rest = w.frame
	return true
}

// digits writes the last eight of a number at the end of b.
func digits(b []byte, n int) {
	for i := range 8 {
		b[len(b)-1-i] = byte('0' + n%10)
		n /= 10
	}
}

func (w *watchBody) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.more.Broadcast()
	return nil
}

// api answers what a target asks an API server.
type api struct{ watch *watchBody }

func (a api) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
	}
	text := ""
	switch {
	case r.URL.Path == "/apis/example.com":
		text = `{"kind":"APIGroup","apiVersion":"v1","name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}}`
	case r.URL.Path == "/apis/example.com/v1":
		text = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[{"name":"things","namespaced":true,"kind":"Thing","verbs":["list","watch","get"]}]}`
	case r.URL.Path != "/apis/example.com/v1/things":
		response.StatusCode, response.Status = http.StatusNotFound, "404 Not Found"
		text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	case r.URL.Query().Get("watch") != "":
		response.Body = a.watch
		return response, nil
	default:
		text = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"1"},"items":[]}`
	}
	response.Body = io.NopCloser(strings.NewReader(text))
	return response, nil
}

// way is informd from the socket to the hand-off to a sink, but for the socket.
type way struct {
	body *watchBody
	sink *tally
}

// tally is a sink that counts, and says when it has come somewhere.
type tally struct {
	mu   sync.Mutex
	come sync.Cond
	n    int
}

func (s *tally) Write(_ context.Context, batch []event.Event) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range batch {
		if !batch[i].Op.Control() {
			s.n++
		}
	}
	s.come.Broadcast()
	return len(batch), nil
}

func (s *tally) Close(context.Context) error { return nil }

// bring lets n frames through and waits until they are handed off.
func (w *way) bring(n int) {
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	until := w.sink.n + n
	w.body.allow(n)
	for w.sink.n < until {
		w.sink.come.Wait()
	}
}

func newWay(tb testing.TB) *way {
	tb.Helper()
	w := &way{body: newWatchBody(), sink: &tally{}}
	w.sink.come.L = &w.sink.mu
	quiet := slog.New(slog.DiscardHandler)
	j := emptyJournal(tb)
	cursor, err := j.Open("out", journal.FromSnapshot)
	must(tb, err)
	runner, err := deliver.New(cursor, nil, deliver.Options{
		Name: "out", Logger: quiet, Registerer: prometheus.NewRegistry(),
		Setup: deliver.Setup{
			Lanes: 1, Route: deliver.NewRoute(nil, true), Open: func(context.Context) (sink.Sink, error) { return w.sink, nil },
		},
	})
	must(tb, err)
	ctx, cancel := context.WithCancel(tb.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := runner.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	m, err := dynwatch.New(dynwatch.Options{
		Cluster: "test", Kubernetes: &rest.Config{Host: "http://localhost", Transport: api{w.body}}, Log: j,
		RedactionKey: []byte("0123456789abcdef"), Logger: quiet,
		Reject: func(_ context.Context, r dynwatch.Rejected) error { return fmt.Errorf("rejected: %s", r.Reason) },
	})
	must(tb, err)
	tb.Cleanup(func() {
		m.Close()
		cancel()
		wg.Wait()
	})
	must(tb, m.Apply([]dynwatch.Resource{{Group: "example.com", Resource: "things"}}))
	w.bring(2 * wayObjects) // until all is known, and all buffers have their size
	return w
}

// BenchmarkWay is what one event costs from the bytes of a watch to the hand-off to a
// sink, a temporary journal in between; split, reading the same bytes and finding their
// lines, is what nothing can be cheaper than.
func BenchmarkWay(b *testing.B) {
	b.Run("event", func(b *testing.B) {
		w := newWay(b)
		b.SetBytes(int64(len(w.body.frame)))
		b.ReportAllocs()
		b.ResetTimer()
		before := cpuTime(b)
		w.bring(b.N)
		b.StopTimer()
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	})
	b.Run("split", func(b *testing.B) {
		body := newWatchBody()
		body.allow(b.N)
		r := bufio.NewReaderSize(body, 64<<10)
		b.SetBytes(int64(len(body.frame)))
		b.ReportAllocs()
		b.ResetTimer()
		before := cpuTime(b)
		for range b.N {
			_, err := r.ReadSlice('\n')
			must(b, err)
		}
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	})
}

// cpuTime is the processor time that the process has used: others may use the machine.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestWayAllocates holds what one event allocates, from the bytes of a watch to the
// hand-off to a sink: until it is in the log, its object lies in memory that is used again.
func TestWayAllocates(t *testing.T) {
	const events = 20_000
	w := newWay(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w.bring(events)
	runtime.ReadMemStats(&after)
	allocations, size := float64(after.Mallocs-before.Mallocs)/events, (after.TotalAlloc-before.TotalAlloc)/events
	t.Logf("%.2f allocations of %d bytes in all for each event", allocations, size)
	if allocations > wayAllocations || size > wayBytes {
		t.Errorf("%.2f allocations of %d bytes for each event, want at most %v of %d", allocations, size, wayAllocations, wayBytes)
	}
}
