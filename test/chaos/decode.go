package chaos

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// body is a decoded object.
type body struct {
	group, kind, namespace, name, uid string
	rv                                uint64
	hash, gate                        Hash
	labels                            labels.Set
}

// decodeObject reads an object, as etcd or an event holds it, and hashes what the
// two must agree on: all but the API version and kind, the revision, the managed
// fields, the last applied manifest, the values of a Secret and the specification of
// a custom resource definition.
func decodeObject(raw []byte) (body, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var o map[string]any
	if err := decoder.Decode(&o); err != nil {
		return body{}, fmt.Errorf("decode object: %w", err)
	}
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		return body{}, fmt.Errorf("decode object: no metadata in %.200s", raw)
	}
	apiVersion := text(o, "apiVersion")
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group = ""
	}
	b := body{group: group, kind: text(o, "kind"), namespace: text(meta, "namespace"), name: text(meta, "name"), uid: text(meta, "uid")}
	b.rv, _ = strconv.ParseUint(text(meta, "resourceVersion"), 10, 64) // etcd's copy has none
	all, _, err := unstructured.NestedStringMap(o, "metadata", "labels")
	if err != nil {
		return body{}, fmt.Errorf("decode object: %w", err)
	}
	b.labels = all
	normalise(o, meta, b.kind)
	canonical, err := json.Marshal(o) // sorts the keys
	if err != nil {
		return body{}, fmt.Errorf("encode object: %w", err)
	}
	sum := sha256.Sum256(canonical)
	copy(b.hash[:], sum[:])
	b.gate = gateOf(b.kind, meta, b.hash)
	return b, nil
}

func normalise(o, meta map[string]any, kind string) {
	for _, name := range []string{"apiVersion", "kind"} {
		delete(o, name)
	}
	for _, name := range []string{"managedFields", "resourceVersion"} {
		delete(meta, name)
	}
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		delete(annotations, lastApplied)
		if len(annotations) == 0 {
			delete(meta, "annotations")
		}
	}
	switch kind {
	case "Deployment": // API servers before 1.34 write "creationTimestamp": null into the template
		created := []string{"spec", "template", "metadata", "creationTimestamp"}
		if value, found, err := unstructured.NestedFieldNoCopy(o, created...); found && err == nil && value == nil {
			unstructured.RemoveNestedField(o, created...)
		}
	case "Secret":
		delete(o, "data")
		delete(o, "stringData")
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			for name := range annotations {
				annotations[name] = "" // informd replaces it by a hash
			}
		}
	case "CustomResourceDefinition": // stored as v1beta1, which has another form
		delete(o, "spec")
	}
}

func text(o map[string]any, name string) string {
	s, _ := o[name].(string)
	return s
}

// attributes are a CloudEvent's, by name without prefix.
type attributes func(name string) string

// decodeCloudEvent reads a CloudEvent in JSON format.
func decodeCloudEvent(raw []byte) (Delivery, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return Delivery{}, fmt.Errorf("decode event: %w: %.200s", err, raw)
	}
	return decodeEvent(all["data"], func(name string) string {
		value := string(all[name])
		if unquoted := ""; json.Unmarshal(all[name], &unquoted) == nil {
			return unquoted
		}
		return value // a number or a boolean
	})
}

// decodeMessage reads a CloudEvent in NATS binary mode.
func decodeMessage(headers nats.Header, data []byte) (Delivery, error) {
	var bad error
	d, err := decodeEvent(data, func(name string) string {
		value, err := url.PathUnescape(headers.Get("ce-" + name))
		if err != nil {
			bad = fmt.Errorf("header ce-%s: %w", name, err)
		}
		return value
	})
	if err == nil {
		err = bad
	}
	// What the stream has within the duplicate window and must have again, the sink
	// sends without this header. If it is a repeat, that shows.
	if id := headers.Get(nats.MsgIdHdr); err == nil && id != "" && id != d.ID {
		err = fmt.Errorf("%s is %q, ce-id is %q", nats.MsgIdHdr, id, d.ID)
	}
	return d, err
}

func decodeEvent(data []byte, get attributes) (Delivery, error) {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(get(name), 10, 64) // absent is 0
		return n
	}
	d := Delivery{
		ID: get("id"), Op: get("op"), Target: targetName(get("group"), get("resource")),
		Namespace: get("namespace"), Name: get("name"), UID: get("uid"),
		RV: number("resourceversion"), PrevRV: number("prevresourceversion"), Ordinal: number("ordinal"),
		FromRV: number("fromrv"), ToRV: number("torv"), Trimmed: number("trimmed"),
		Reason: get("reason"), Recovered: get("recovered"), Replay: get("replay") == "true",
	}
	if d.ID == "" || d.Op == "" {
		return d, fmt.Errorf("event without id or op: %.200s", data)
	}
	what, run, epoch := splitID(d.ID)
	d.Run, d.Epoch = run, int(epoch)
	if d.Op == opEntered || d.Op == opLeft {
		d.Cause, _ = strconv.ParseUint(what[strings.LastIndexByte(what, ':')+1:], 10, 64) // 0 holds of no revision
	}
	d.Sum = sha256.Sum256(data)
	if len(data) == 0 || d.control() {
		return d, nil
	}
	var content struct {
		Object json.RawMessage
		Final  *bool
	}
	if err := json.Unmarshal(data, &content); err != nil {
		return d, fmt.Errorf("data of %s: %w", d.ID, err)
	}
	d.Final = content.Final != nil && *content.Final
	if content.Object == nil {
		return d, nil
	}
	o, err := decodeObject(content.Object)
	if err != nil {
		return d, fmt.Errorf("%s: %w", d.ID, err)
	}
	if o.uid != d.UID || o.namespace != d.Namespace || o.name != d.Name {
		d.Stranger = fmt.Sprintf("%s/%s of uid %s", o.namespace, o.name, o.uid)
	}
	d.HasObject, d.Hash, d.Gate, d.BodyRV = true, o.hash, o.gate, o.rv
	return d, nil
}

// splitID cuts the run and the epoch off an id: "...:r1795170000000:e2".
func splitID(id string) (what string, run, epoch uint64) {
	what, epoch = cutNumber(id, "e")
	what, run = cutNumber(what, "r")
	return what, run, epoch
}

func cutNumber(id, letter string) (rest string, number uint64) {
	colon := strings.LastIndexByte(id, ':')
	digits, found := strings.CutPrefix(id[colon+1:], letter)
	number, err := strconv.ParseUint(digits, 10, 64)
	if colon < 0 || !found || err != nil {
		return id, 0
	}
	return id[:colon], number
}

func targetName(group, resource string) string {
	if group == "" {
		group = "core"
	}
	return group + "/" + resource
}
