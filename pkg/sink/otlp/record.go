package otlp

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/informd/informd/pkg/event"
)

// Shape is the form of the records.
type Shape string

// The shapes.
const (
	// ShapeEvent has the event's data as the body, and all attributes of the event.
	ShapeEvent Shape = "event"
	// ShapeObjects has the records of the Collector's k8sobjects receiver in watch mode. Control
	// events, of which that receiver has none, have ShapeEvent.
	ShapeObjects Shape = "k8sobjects"
)

const (
	scopeEvent = "github.com/informd/informd"
	// scopeObjects is the scope of the receiver, by which pipelines may select its records.
	scopeObjects = "github.com/open-telemetry/opentelemetry-collector-contrib/receiver/k8sobjectsreceiver"
)

// encode makes the message of a request, of one event at least. Consecutive events of one resource and scope
// share it; no event overtakes another.
func encode(events []event.Event, shape Shape) ([]byte, error) {
	var m message
	var group, scope int // are open
	var shared [3]string
	for i := range events {
		e, as := &events[i], shape
		if e.Op.Control() { // which the receiver does not have
			as = ShapeEvent
		}
		if sharing := [3]string{string(as), e.Cluster, e.Namespace}; i == 0 || sharing != shared {
			if i > 0 {
				m.close(scope)
				m.close(group)
			}
			of, with := newGroup(e, as)
			group, shared = m.open(1), sharing // resource_logs
			m.put(of)
			scope = m.open(2) // scope_logs
			m.put(with)
		}
		record := m.open(2) // log_records
		m.put(newRecord(e, as))
		if text := bodyOf(e, as); text != nil {
			body := m.open(5)
			m.value(text, 0)
			m.close(body)
		}
		m.close(record)
	}
	m.close(scope)
	m.close(group)
	return m.bytes, m.err
}

// newGroup makes the group of an event, without records: its resource is the cluster and the
// namespace, so that their number stays small where backends index resources.
func newGroup(e *event.Event, shape Shape) (*logs.ResourceLogs, *logs.ScopeLogs) {
	var attributes []*common.KeyValue
	scope := scopeObjects
	if shape == ShapeEvent {
		scope = scopeEvent
		attributes = append(attributes, attribute("service.name", "informd"), attribute("k8s.cluster.name", e.Cluster))
	}
	if e.Namespace != "" {
		attributes = append(attributes, attribute("k8s.namespace.name", e.Namespace))
	}
	return &logs.ResourceLogs{Resource: &resource.Resource{Attributes: attributes}},
		&logs.ScopeLogs{Scope: &common.InstrumentationScope{Name: scope}}
}

// newRecord makes the record of an event without its body.
func newRecord(e *event.Event, shape Shape) *logs.LogRecord {
	observed := uint64(max(0, e.Time.UnixNano())) // before 1970: unknown
	if shape == ShapeObjects {
		return &logs.LogRecord{
			ObservedTimeUnixNano: observed,
			Attributes: []*common.KeyValue{
				attribute("k8s.resource.name", e.Resource), attribute("event.domain", "k8s"), attribute("event.name", e.Name),
			},
		}
	}
	r := &logs.LogRecord{
		TimeUnixNano:         observed,
		ObservedTimeUnixNano: observed,
		SeverityNumber:       logs.SeverityNumber_SEVERITY_NUMBER_INFO,
		SeverityText:         "INFO",
		EventName:            e.Type(),
		Attributes:           attributesOf(e),
	}
	if needsAttention(e) {
		r.SeverityNumber, r.SeverityText = logs.SeverityNumber_SEVERITY_NUMBER_WARN, "WARN"
	}
	return r
}

// needsAttention reports whether an event says that events may be missing or late.
func needsAttention(e *event.Event) bool {
	switch state, _ := e.TargetState(); state {
	case "forbidden", "stale", "degraded":
		return true
	}
	return e.Op == event.Gap
}

// attributesOf are the attributes of the event: those of OpenTelemetry's semantic conventions where
// there are any, k8s.object and k8s.resource of the Collector's receivers of Kubernetes, and own ones
// for the rest. The group has the cluster and the namespace.
func attributesOf(e *event.Event) []*common.KeyValue {
	all := make([]*common.KeyValue, 0, 20)
	add := func(key, value string) { all = append(all, attribute(key, value)) }
	add("event.name", e.Type())
	e.AppendAttributes(func(name, value string) {
		switch name {
		case "specversion", "source", "type", "subject", "time", "datacontenttype", "cluster", "namespace", "group":
			// In other places of the message, or made of other attributes.
		case "id":
			add("cloudevents.event_id", value)
		case "version":
			add("k8s.object.api_version", apiVersion(e))
		case "resource":
			add("k8s.resource.name", value)
		case "kind":
			add("k8s.object.kind", value)
		case "name", "uid":
			add("k8s.object."+name, value)
			if own := conventional(e, name); own != "" {
				add(own, value)
			}
		case "resourceversion":
			add("k8s.object.resource_version", value)
		default:
			add("informd."+name, value)
		}
	})
	return all
}

// conventional is the attribute that the semantic conventions have for the name or the uid of
// an object of this kind, such as k8s.pod.name. It is "" if they have none.
func conventional(e *event.Event, what string) string {
	kind := strings.ToLower(e.Kind)
	switch event.GroupOrCore(e.Group) + "/" + e.Resource {
	case "core/pods", "core/nodes", "core/services", "core/replicationcontrollers", "core/resourcequotas",
		"core/persistentvolumes", "core/persistentvolumeclaims",
		"apps/deployments", "apps/replicasets", "apps/statefulsets", "apps/daemonsets", "batch/jobs", "batch/cronjobs":
	case "autoscaling/horizontalpodautoscalers":
		kind = "hpa"
	case "core/namespaces", "storage.k8s.io/storageclasses":
		if what == "uid" {
			return ""
		}
	default:
		return ""
	}
	return "k8s." + kind + "." + what
}

func apiVersion(e *event.Event) string { return strings.TrimPrefix(e.Group+"/"+e.Version, "/") }

// bodyOf is the body of an event's record as JSON, nil if there is none. In ShapeObjects it is what the receiver
// makes of an event of a watch: an object that begins or ceases to match is added or deleted, as in a watch
// with a selector.
func bodyOf(e *event.Event, shape Shape) []byte {
	if shape != ShapeObjects {
		return e.Data
	}
	kind := "MODIFIED"
	switch e.Op {
	case event.Snapshot, event.Added, event.Entered:
		kind = "ADDED"
	case event.Deleted, event.Left:
		kind = "DELETED"
	case event.Modified, event.Begin, event.Synced, event.Gap, event.State:
	}
	object := e.Object()
	if object == nil {
		object = identity(e)
	}
	return fmt.Appendf(nil, `{"type":%q,"object":%s}`, kind, object)
}

// identity is an object of which nothing else is known.
func identity(e *event.Event) []byte {
	metadata := map[string]string{"name": e.Name, "uid": e.UID, "resourceVersion": strconv.FormatUint(e.ResourceVersion, 10)}
	if e.Namespace != "" {
		metadata["namespace"] = e.Namespace
	}
	text, _ := json.Marshal(map[string]any{"apiVersion": apiVersion(e), "kind": e.Kind, "metadata": metadata})
	return text
}
