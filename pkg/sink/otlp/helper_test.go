package otlp_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type request = endpointtest.Request

// record is one log record with what it shares with others.
type record struct {
	*logs.LogRecord

	scope      string
	attributes map[string]string // those of the resource, too
}

// flat lists the records of a message in their order.
func flat(data *logs.LogsData) []record {
	var all []record
	for _, group := range data.GetResourceLogs() {
		for _, scope := range group.GetScopeLogs() {
			for _, one := range scope.GetLogRecords() {
				r := record{one, scope.GetScope().GetName(), map[string]string{}}
				for _, a := range append(group.GetResource().GetAttributes(), one.GetAttributes()...) {
					r.attributes[a.GetKey()] = strings.Trim(string(jsonOf(a.GetValue())), `"`)
					if text, ok := a.GetValue().GetValue().(*common.AnyValue_StringValue); ok {
						r.attributes[a.GetKey()] = text.StringValue
					}
				}
				all = append(all, r)
			}
		}
	}
	return all
}

// jsonOf is a value as the JSON that it was made of.
func jsonOf(v *common.AnyValue) []byte {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		quoted, _ := json.Marshal(v.StringValue)
		return quoted
	case *common.AnyValue_BoolValue:
		return strconv.AppendBool(nil, v.BoolValue)
	case *common.AnyValue_IntValue:
		return strconv.AppendInt(nil, v.IntValue, 10)
	case *common.AnyValue_DoubleValue:
		return strconv.AppendFloat(nil, v.DoubleValue, 'g', -1, 64)
	case *common.AnyValue_ArrayValue:
		parts := make([][]byte, len(v.ArrayValue.GetValues()))
		for i, one := range v.ArrayValue.GetValues() {
			parts[i] = jsonOf(one)
		}
		return append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']')
	case *common.AnyValue_KvlistValue:
		parts := make([][]byte, len(v.KvlistValue.GetValues()))
		for i, one := range v.KvlistValue.GetValues() {
			key, _ := json.Marshal(one.GetKey())
			parts[i] = append(append(key, ':'), jsonOf(one.GetValue())...)
		}
		return append(append([]byte{'{'}, bytes.Join(parts, []byte{','})...), '}')
	}
	return []byte("null")
}

// serve starts an endpoint of OTLP over HTTP and gRPC that behaves so, or accepts everything.
func serve(t *testing.T, behave endpointtest.Behaviour) *endpointtest.Server {
	t.Helper()
	e := unstarted(t, behave)
	e.Start()
	return e
}

func unstarted(t *testing.T, behave endpointtest.Behaviour) *endpointtest.Server {
	t.Helper()
	if behave == nil {
		behave = func(_ int, w http.ResponseWriter, r request) bool {
			accept(w, r, nil)
			return true
		}
	}
	e := endpointtest.Unstarted(t, behave)
	e.Config.Protocols = &http.Protocols{}
	e.Config.Protocols.SetHTTP1(true)
	e.Config.Protocols.SetHTTP2(true)
	e.Config.Protocols.SetUnencryptedHTTP2(true)
	e.EnableHTTP2 = true
	return e
}

// decode reads a request as its headers say.
func decode(t *testing.T, r request) *logs.LogsData {
	t.Helper()
	body := r.Plain
	if r.Header.Get("Content-Type") == "application/grpc" {
		encoding := r.Header.Get("Grpc-Encoding")
		if len(body) < 5 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 || (body[0] == 1) != (encoding != "") {
			t.Errorf("the request is no message of gRPC: %.50q", body)
			return nil
		}
		var err error
		if body, err = endpointtest.Unpack(encoding, body[5:]); err != nil {
			t.Error(err)
		}
	}
	var data logs.LogsData
	if err := proto.Unmarshal(body, &data); err != nil {
		t.Error(err)
	}
	return &data
}

// accept answers a request with success and a message.
func accept(w http.ResponseWriter, r request, message []byte) {
	if r.Header.Get("Content-Type") != "application/grpc" {
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(message)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	w.Header().Set("Grpc-Status", "0")
}

// fail answers a request with a status of HTTP, or with one of gRPC.
func fail(w http.ResponseWriter, r request, status, code int) {
	if r.Header.Get("Content-Type") != "application/grpc" {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", strconv.Itoa(code))
	w.Header().Set("Grpc-Message", "too bad%21")
}

// records are the events that the endpoint kept, in order, as CloudEvents.
func records(t *testing.T, e *endpointtest.Server) []sinktest.Record {
	t.Helper()
	kept, _ := e.Requests()
	var all []sinktest.Record
	for _, r := range kept {
		for _, one := range flat(decode(t, r)) {
			all = append(all, cloudEvent(one))
		}
	}
	return all
}

// cloudEvent is the event of which a record was made.
func cloudEvent(r record) sinktest.Record {
	a := r.attributes
	group, version, named := strings.Cut(a["k8s.object.api_version"], "/")
	if !named {
		group, version = "", group
	}
	out := sinktest.Record{Attributes: map[string]string{
		"specversion": "1.0", "source": "informd/" + a["k8s.cluster.name"], "type": r.GetEventName(), "id": a["cloudevents.event_id"],
		"time":  form.Time(time.Unix(0, int64(r.GetTimeUnixNano()))),
		"group": group, "version": version,
	}}
	for from, to := range map[string]string{
		"k8s.cluster.name": "cluster", "k8s.namespace.name": "namespace", "k8s.resource.name": "resource", "k8s.object.kind": "kind",
		"k8s.object.name": "name", "k8s.object.uid": "uid", "k8s.object.resource_version": "resourceversion",
	} {
		if value := a[from]; value != "" {
			out.Attributes[to] = value
		}
	}
	for key, value := range a {
		if own, ok := strings.CutPrefix(key, "informd."); ok {
			out.Attributes[own] = value
		}
	}
	e := event.Event{
		Op: event.Op(a["informd.op"]), Group: group, Resource: a["k8s.resource.name"], Namespace: a["k8s.namespace.name"], Name: a["k8s.object.name"],
		Target: event.GroupOrCore(group) + "/" + a["k8s.resource.name"],
	}
	out.Attributes["subject"] = e.Subject()
	if r.GetBody() != nil {
		out.Attributes["datacontenttype"], out.Data = "application/json", string(jsonOf(r.GetBody()))
	}
	return out
}

func config(t *testing.T, url string, change func(c *otlp.Config)) *otlp.Config {
	t.Helper()
	return sinktest.Options(t, otlp.Driver(), func(c *otlp.Config) { c.URL = sink.NewSecret(url) }, change)
}

func open(t *testing.T, url string, change func(c *otlp.Config)) sink.Sink {
	t.Helper()
	return sinktest.Open(t, config(t, url, change))
}

// logTo has a sink log to a buffer.
func logTo(log *bytes.Buffer) func(env *sink.Env) {
	return func(env *sink.Env) { env.Logger = slog.New(slog.NewTextHandler(log, nil)) }
}

func useGRPC(c *otlp.Config) { c.Protocol = otlp.GRPC }

// protocols are the changes that select each protocol.
func protocols() map[string]func(c *otlp.Config) {
	return map[string]func(c *otlp.Config){"http": func(*otlp.Config) {}, "grpc": useGRPC}
}
