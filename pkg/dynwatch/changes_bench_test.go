package dynwatch_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch"
	"github.com/informd/informd/pkg/event"
)

// benchObjects is how many objects there are.
const benchObjects = 1000

// BenchmarkChanges watches Pods of 8.5 KB of which a status changes, from the response
// to the journal: with what an entry may ask for, per event. cpu-ns/op is the
// time of the processor, the API server's, which is in the process, included.
func BenchmarkChanges(b *testing.B) {
	for name, wanted := range map[string]dynwatch.Resource{
		"plain":            {},
		"changed":          {Changes: dynwatch.Changes{Paths: true}},
		"patch":            {Changes: dynwatch.Changes{Patch: true}},
		"oldObject":        {Changes: dynwatch.Changes{Old: true}},
		"emitWhen.changed": {EmitWhen: dynwatch.EmitWhen{Changed: []string{"spec", "metadata.labels", "status.containerStatuses"}}},
		"emitWhen.noop":    {EmitWhen: dynwatch.EmitWhen{SuppressNoop: true}},
		"match.changed":    {SinkFilters: []string{"spec", "metadata.labels", "status.phase"}},
	} {
		wanted.Version, wanted.Resource = "v1", "pods"
		b.Run(name, func(b *testing.B) { benchmarkChanges(b, wanted) })
	}
}

func benchmarkChanges(b *testing.B, wanted dynwatch.Resource) {
	b.Helper()
	begin := make(chan struct{})
	server := httptest.NewServer(newPodServer(begin, b.N))
	defer server.Close()
	m, err := dynwatch.New(dynwatch.Options{
		Cluster: "bench", Kubernetes: &rest.Config{Host: server.URL}, Log: diskLog(b, "bench"), RedactionKey: previewKey(),
		Reject: func(context.Context, dynwatch.Rejected) error { return nil }, Logger: slog.New(slog.DiscardHandler),
	})
	must(b, err)
	defer m.Close()
	must(b, m.Apply([]dynwatch.Resource{wanted}))
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	wait := func(ok func(dynwatch.TargetStatus) bool) (s dynwatch.TargetStatus) {
		for s = m.Targets()[0]; !ok(s); s = m.Targets()[0] {
			if s.State == dynwatch.Stopped || s.State == dynwatch.Degraded {
				b.Fatalf("the target is %+v", s)
			}
			<-poll.C
		}
		return s
	}
	wait(func(s dynwatch.TargetStatus) bool { return s.State == dynwatch.Live })
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	close(begin)
	s := wait(func(s dynwatch.TargetStatus) bool { return s.Events[event.Modified] >= uint64(b.N) })
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
	if s.Unpaired > 0 {
		b.Errorf("%d events do not say what has changed", s.Unpaired)
	}
}

// cpu is the time that the process has had of the processors.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// podServer has Pods, and changes each of them in turn.
type podServer struct {
	begin  <-chan struct{}
	frames int
	// pods are what is around the revision and a count of restarts.
	pods [benchObjects][3]string
}

func newPodServer(begin <-chan struct{}, frames int) *podServer {
	s := &podServer{begin: begin, frames: frames}
	for i := range s.pods {
		copy(s.pods[i][:], strings.Split(benchPod(i), "@"))
	}
	return s
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case r.URL.Path == "/api/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list","watch","get"]}]}`)
	case r.URL.Path != "/api/v1/pods":
		writeStatus(w, 403, "Forbidden", "only pods")
	case query.Get("watch") != "":
		s.watch(w, r)
	case query.Get("limit") == "1":
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1000"},"items":[]}`)
	default:
		items := make([]string, benchObjects)
		for i := range items {
			items[i] = s.pods[i][0] + strconv.Itoa(1+i) + s.pods[i][1] + "0" + s.pods[i][2]
		}
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1000"},"items":[%s]}`, strings.Join(items, ","))
	}
}

func (s *podServer) watch(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	select {
	case <-s.begin:
	case <-r.Context().Done():
		return
	}
	out := bufio.NewWriterSize(w, 64<<10)
	for i := range s.frames {
		pod := s.pods[i%benchObjects]
		for _, part := range []string{
			`{"type":"MODIFIED","object":`, pod[0], strconv.Itoa(benchObjects + 1 + i), pod[1], strconv.Itoa(1 + i/benchObjects), pod[2], "}\n",
		} {
			if _, err := out.WriteString(part); err != nil {
				return
			}
		}
	}
	_ = out.Flush()
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// benchPod is a Pod of about 8.5 KB, with an @ for its revision and for a count of restarts.
func benchPod(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-%d","generateName":"web-","namespace":"shop","uid":"3f0f5a4e-1111-4222-8333-%012d","resourceVersion":"@","creationTimestamp":"2026-11-20T10:00:00Z","labels":{"app":"web","pod-template-hash":"5d4f8c7b9"}},"spec":{"nodeName":"node-%d","containers":[`, i, i, i%50)
	for c := range 8 {
		if c > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"c%d","image":"registry.example.com/shop/web:v1.%d.0","command":["/bin/web","--listen=:8080"],"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}},{"name":"MODE","value":"prod"}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"data","mountPath":"/data"},{"name":"kube-api-access-abcde","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}`, c, i%7)
	}
	fmt.Fprintf(&b, `]},"status":{"phase":"Running","podIP":"10.1.%d.%d","containerStatuses":[{"name":"c0","ready":true,"restartCount":@,"started":true}],"startTime":"2026-11-20T10:00:%02dZ"}}`, i/250, i%250, i%60)
	return b.String()
}
