package deliver_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/internal/when"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

// renderer is a sink that renders what it gets, as all of them do, and throws it away.
type renderer struct {
	line []byte
	left atomic.Int64
	news chan struct{} // one signal: left has grown
}

func (r *renderer) Write(_ context.Context, batch []event.Event) (int, error) {
	for i := range batch {
		r.line = batch[i].AppendJSON(r.line[:0])
		if _, err := io.Discard.Write(r.line); err != nil {
			return i, err
		}
	}
	r.left.Add(int64(len(batch)))
	select {
	case r.news <- struct{}{}:
	default:
	}
	return len(batch), nil
}

func (*renderer) Close(context.Context) error { return nil }

// podEvents makes events of Pods of some 8 KB in the API server's order of keys, so
// that the status is behind all the rest.
func podEvents(n int) []event.Event {
	var env, conditions strings.Builder
	for i := range 40 {
		fmt.Fprintf(&env, `{"name":"SETTING_%d","valueFrom":{"configMapKeyRef":{"name":"web-settings","key":"setting.%d"}}},`, i, i)
	}
	for _, kind := range []string{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		fmt.Fprintf(&conditions, `{"type":%q,"status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-20T10:00:00Z"},`, kind)
	}
	container := `{"name":"web","image":"registry.example.com/shop/web:1.2.3","args":["--listen=:8080","--verbose"],"env":[` + env.String() + `{"name":"LAST","value":"1"}],` +
		`"resources":{"limits":{"cpu":"500m","memory":"512Mi"},"requests":{"cpu":"100m","memory":"256Mi"}},"volumeMounts":[{"name":"kube-api-access-x2x4z","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],` +
		`"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10},"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}`
	list := events(0, n)
	for i := range list {
		object := fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"generateName":"web-5d4f8c7b9-","namespace":"default","uid":%q,"resourceVersion":"%d",`+
			`"creationTimestamp":"2026-11-20T10:00:00Z","labels":{"app":"web","pod-template-hash":"5d4f8c7b9"},"annotations":{"checksum/config":"0123456789abcdef"},`+
			`"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-5d4f8c7b9","uid":"c0ffee","controller":true}]},"spec":{"containers":[%s],`+
			`"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"node-7","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]},`+
			`"status":{"phase":"Running","conditions":[%s{"type":"Other","status":"False"}],"hostIP":"10.0.0.7","podIP":"10.1.2.3","startTime":"2026-11-20T10:00:00Z","qosClass":"Burstable"}}`,
			list[i].Name, list[i].UID, list[i].ResourceVersion, container+","+strings.Replace(container, "web", "sidecar", 1), conditions.String())
		list[i].Data = event.CloseData(append(event.OpenData(nil), object...))
	}
	return list
}

// mostBehind is how many events the sink is behind, so that it reads them from memory.
const mostBehind = 300

// BenchmarkWhen compares what an event costs between the journal and a sink that
// renders it, the journal included, with and without an expression about two
// fields, one at the very end of an object of 8 KB. The processor's time is what
// counts: the wall clock has that of other processes, too.
func BenchmarkWhen(b *testing.B) {
	compiler, err := when.NewCompiler()
	must(b, err)
	list := podEvents(100)
	for _, bench := range []struct{ name, when string }{
		{"plain", ""},
		{"two fields", `object.metadata.labels.app == "web" && object.status.phase == "Running"`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var only []deliver.Match
			if bench.when != "" {
				x, mistakes := compiler.Compile(bench.when)
				if len(mistakes) > 0 {
					b.Fatal(mistakes)
				}
				only = []deliver.Match{{When: x}}
			}
			route := deliver.NewRoute(only, true)
			j, out := emptyJournal(b), &renderer{news: make(chan struct{}, 1)}
			r := newRunner(b, realJournal{j}, deliver.Options{
				Name: "out", Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
				Setup: deliver.Setup{Lanes: 1, Route: route, Open: func(context.Context) (sink.Sink, error) { return out, nil }},
			})
			done := make(chan error, 1)
			b.ReportAllocs()
			b.SetBytes(int64(len(list[0].Data)))
			before := processorTime(b)
			go func() { done <- r.Run(b.Context()) }()
			for left := b.N; left > 0; left -= len(list) {
				for b.N-left-int(out.left.Load()) > mostBehind {
					<-out.news
				}
				must(b, j.Append(b.Context(), list[:min(left, len(list))]))
			}
			if left, err := r.Drain(b.Context()); left > 0 || err != nil {
				b.Fatalf("Drain = %d, %v", left, err)
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			must(b, <-done)
			if got := int(out.left.Load()); got != b.N {
				b.Errorf("%d events delivered, want %d", got, b.N)
			}
		})
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
