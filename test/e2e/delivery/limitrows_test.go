package delivery_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/test/e2e"
)

const (
	// source is the dead-letter queue of objects that no event can carry.
	source = "source"
	// small destinations take messages of 1 MiB, subjectLimited names of some 3,800 bytes.
	small          = "bus core log"
	subjectLimited = "bus core"
	// maxName is the longest that a name of most kinds may be.
	maxName = 253
	// maxStored is what etcd takes in one request.
	maxStored = 1536 << 10
)

// longNamespace has a name of the most characters that a namespace may have.
var longNamespace = strings.Repeat("n", 63) //nolint:gochecknoglobals // a constant

// longKinds are custom kinds with the longest names that a definition may have.
func longKinds() []e2e.Kind {
	long := e2e.Kind{
		GVR: schema.GroupVersionResource{
			Group: "g" + strings.Repeat(".abcdefg", 23) + ".abc", Version: "v" + strings.Repeat("1", 62), Resource: "p" + strings.Repeat("s", 62),
		},
		Kind: "K" + strings.Repeat("k", 58), Namespace: longNamespace, // its list's kind has 63
	}
	group := e2e.Kind{GVR: schema.GroupVersionResource{Group: strings.Repeat("a", 247) + ".com", Version: "v1", Resource: "x"}, Kind: "X", Namespace: "default"}
	return []e2e.Kind{long, group}
}

// deadPlace are the sinks that cannot name the resource of an object at all: Kafka's topics
// have names of 249 characters.
func deadPlace(a e2e.Arrival) []string {
	if len(a.Group)+len(a.Resource) > 200 {
		return []string{"log"}
	}
	return nil
}

// limitRow is a piece of content at a limit.
type limitRow struct {
	kind e2e.Kind
	name string
	// metadata and fields are beside what every object has.
	metadata, fields map[string]any
	// raw is the content of a ConfigMap's data and annotations, as JSON.
	raw string
	// grow makes fields of n bytes. The test finds the most that the API server takes.
	grow func(n int) map[string]any
	// uid is one that an API server of somebody else may give.
	uid string
	// dead are the sinks that get a dead letter in place of the events; source is all.
	dead string
}

// hostile has what is special to terminals, headers, subjects, JSON and templates.
const hostile = "\r\nce-op: deleted\r\n\r\n \t\"quoted\" \\back\\slash 'x' `y` * > .. {{.Name}} ${HOME} $(id) %0d%0a %s <b>&amp; " +
	"\x01\x02\x07\x08\x0b\x0c\x1b[2J\x1f\x7f \u0080\u0085\u009b2J\u009f \u202a\u202b\u202e\u2066\u2067\u2069\u200f \u2028\u2029 \ufeff\ufffd\uffff \U0001f600 \U0010ffff ä e\u0301"

func limitRows() map[string]limitRow {
	configMap, role, custom := e2e.ConfigMapKind(), roleKind(), longKinds()
	inLong := configMap
	inLong.Namespace = longNamespace
	rows := map[string]limitRow{
		"longest name":              {kind: configMap, name: strings.Repeat("m", maxName)},
		"longest name with dots":    {kind: configMap, name: strings.Repeat("m.", maxName/2) + "m"},
		"longest namespace":         {kind: inLong, name: strings.Repeat("m", maxName)},
		"longest label":             {kind: configMap, name: "label", metadata: map[string]any{"labels": map[string]any{"limits": "row", longKey("l"): strings.Repeat("v", 63)}}},
		"longest annotation":        {kind: configMap, name: "annotation", metadata: map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 256<<10-1)}}},
		"most annotations":          {kind: configMap, name: "annotations", metadata: map[string]any{"annotations": manyAnnotations()}},
		"longest names of a kind":   {kind: custom[0], name: strings.Repeat("c", maxName)},
		"longest group":             {kind: custom[1], name: strings.Repeat("c", maxName)},
		"hostile values":            {kind: configMap, name: "hostile", metadata: map[string]any{"annotations": map[string]any{"a": hostile}}, fields: map[string]any{"data": map[string]any{"d": hostile}}},
		"escapes and broken UTF-8":  {kind: configMap, name: "escapes", raw: `"\ud800 \udfff \udc00\ud800 \u0000 \u001b \u0085 \u202e \/ ` + "\xff\xfe \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \u0085" + `"`},
		"UID with hostile text":     {kind: configMap, name: "uid-hostile", uid: "uid" + hostile},
		"UID of 5,000 bytes":        {kind: configMap, name: "uid-long", uid: strings.Repeat("u", 5_000)}, // twice in headers, of which the endpoint takes 12 to 16 KiB
		"UID beyond every message":  {kind: configMap, name: "uid-too-long", uid: strings.Repeat("u", 8<<10), dead: source},
		"name of 3,800 bytes":       {kind: role, name: strings.Repeat("r", 3_800)},
		"name beyond a subject":     {kind: role, name: strings.Repeat("r", 3_900), dead: subjectLimited},
		"longest name in an event":  {kind: role, name: strings.Repeat("r", 8<<10-7-36), dead: subjectLimited + " headers"},
		"the same, not ASCII":       {kind: role, name: strings.Repeat("ä", (8<<10-7-36)/2), dead: subjectLimited + " headers"},
		"name beyond every message": {kind: role, name: strings.Repeat("r", 8<<10-7-35), dead: source},
		"longest name of all":       {kind: role, name: strings.Repeat("R", 520_000), dead: source}, // etcd gets three of it, in 1.5 MiB
		"largest ConfigMap":         {kind: configMap, name: "large", fields: map[string]any{"binaryData": map[string]any{"b": base64.StdEncoding.EncodeToString(e2e.Noise(1<<20 - 1))}}, dead: small},
		"largest custom object": {kind: custom[1], name: "large", grow: func(n int) map[string]any {
			return map[string]any{"spec": base64.StdEncoding.EncodeToString(e2e.Noise(n * 3 / 4))}
		}, dead: small},
		"largest object of all": {kind: role, name: "large", grow: escaped, dead: small},
	}
	for i, name := range []string{
		"system:foo:*", "a>b", ">", "*", "..a", " ", "tab\tand\nnewline", "a\r\nce-op: deleted\r\n\r\n", `"quoted"\back`, "nul\x00escape\x1b[2J",
		"c1\u0085\u009b", "bidi\u202e\u2066", "{{.Name}}${HOME}$(id)", "日本😀e\u0301", "_informd", "a_b", "a.b", "A.B", "~!@#&()=+,;?|^`'",
	} {
		rows[fmt.Sprintf("hostile name %d", i)] = limitRow{kind: role, name: name}
	}
	return rows
}

func roleKind() e2e.Kind {
	return e2e.Kind{GVR: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, Kind: "Role", Namespace: "default"}
}

// longKey is a key of the most characters that a label or annotation may have.
func longKey(begin string) string {
	return begin + strings.Repeat("e", maxName-len(begin)) + "/" + strings.Repeat("k", 63)
}

// manyAnnotations are 256 KiB of long keys.
func manyAnnotations() map[string]any {
	all := make(map[string]any)
	for i := range 256 << 10 / 320 {
		all[longKey(fmt.Sprintf("a%d.", i))] = "x"
	}
	return all
}

// escaped are the rules of a Role whose n bytes take six times as many in JSON.
func escaped(n int) map[string]any {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = "<>&"[random.IntN(3)]
	}
	return map[string]any{"rules": []any{map[string]any{"verbs": []any{"get"}, "apiGroups": []any{""}, "resources": []any{"pods"}, "resourceNames": []any{string(b)}}}}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// contentWriter writes the rows.
type contentWriter struct {
	t      *testing.T
	client *http.Client
	url    string
	put    e2e.Putter
	// written are the objects of the rows; after is what was written after each.
	written map[string]e2e.Arrival
	after   []e2e.Arrival
	kinds   map[string]e2e.Kind // by path
}

func newContentWriter(t *testing.T, config *rest.Config, put e2e.Putter) *contentWriter {
	t.Helper()
	return &contentWriter{t: t, client: e2e.HTTPClient(t, config), url: config.Host, put: put, written: make(map[string]e2e.Arrival), kinds: make(map[string]e2e.Kind)}
}

func pathOf(k e2e.Kind) string {
	if k.GVR.Group == "" {
		return "/api/" + k.GVR.Version + "/namespaces/" + k.Namespace + "/" + k.GVR.Resource
	}
	return "/apis/" + k.GVR.Group + "/" + k.GVR.Version + "/namespaces/" + k.Namespace + "/" + k.GVR.Resource
}

// create writes the object of a row, and a small one behind it.
func (w *contentWriter) create(row string, r limitRow) {
	w.t.Helper()
	w.kinds[pathOf(r.kind)] = r.kind
	var answer []byte
	switch {
	case r.uid != "":
		answer = w.inject(r)
	case r.grow != nil:
		n := maxStored
		for code := 0; code != http.StatusCreated; n -= 256 {
			if answer, code = w.post(r.kind, object(r, r.grow(n))); n < maxStored-8<<10 {
				w.t.Fatalf("%s: not even %d bytes: %d %.300s", row, n, code, answer)
			}
		}
		w.t.Logf("%s: %d bytes, %d in JSON", row, n+256, len(answer))
	default:
		code := 0
		if answer, code = w.post(r.kind, object(r, r.fields)); code != http.StatusCreated {
			w.t.Fatalf("%s: %d %.300s", row, code, answer)
		}
	}
	var o struct {
		Metadata struct{ Name, Namespace, UID string }
	}
	e2e.Must(w.t, json.Unmarshal(answer, &o))
	if o.Metadata.Name != r.name || r.uid != "" && o.Metadata.UID != r.uid {
		w.t.Errorf("%s: the API server has name %.100q, uid %.100q", row, o.Metadata.Name, o.Metadata.UID)
	}
	w.written[row] = e2e.Arrival{
		Group: r.kind.GVR.Group, Resource: r.kind.GVR.Resource, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, UID: o.Metadata.UID, Content: e2e.ContentOf(answer),
	}
	w.behind(r.kind)
}

// behind writes a small object that every sink has to get.
func (w *contentWriter) behind(k e2e.Kind) {
	w.t.Helper()
	name := fmt.Sprintf("after-%d", len(w.after))
	answer, code := w.post(k, object(limitRow{kind: k, name: name, metadata: map[string]any{"labels": map[string]any{}}}, nil))
	if code != http.StatusCreated {
		w.t.Fatalf("%s: %d %.300s", name, code, answer)
	}
	w.after = append(w.after, e2e.Arrival{Group: k.GVR.Group, Resource: k.GVR.Resource, Namespace: k.Namespace, Name: name})
}

// object is the JSON of a row's object. It escapes no more than JSON demands: the API server
// bounds requests, too.
func object(r limitRow, fields map[string]any) []byte {
	metadata := map[string]any{"name": r.name, "labels": map[string]any{"limits": "row"}}
	maps.Copy(metadata, r.metadata)
	o := map[string]any{"apiVersion": r.kind.GVR.GroupVersion().String(), "kind": r.kind.Kind, "metadata": metadata}
	maps.Copy(o, fields)
	if r.raw != "" {
		metadata["annotations"] = map[string]any{"a": "RAW"}
		o["data"] = map[string]any{"d": "RAW"}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(o); err != nil {
		panic(err)
	}
	if r.raw == "" {
		return b.Bytes()
	}
	return bytes.ReplaceAll(b.Bytes(), []byte(`"RAW"`), []byte(r.raw))
}

func (w *contentWriter) post(k e2e.Kind, body []byte) (answer []byte, code int) {
	w.t.Helper()
	return w.do(http.MethodPost, pathOf(k), body)
}

func (w *contentWriter) do(method, path string, body []byte) (answer []byte, code int) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, bytes.NewReader(body))
	e2e.Must(w.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := w.client.Do(request)
	e2e.Must(w.t, err)
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		w.t.Fatal(err)
	}
	return answer, response.StatusCode
}

// inject puts an object into etcd whose uid the API server has not made, and returns what
// the API server has then.
func (w *contentWriter) inject(r limitRow) []byte {
	w.t.Helper()
	o := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
		"name": r.name, "namespace": "default", "uid": r.uid, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": map[string]any{"limits": "row"},
	}}
	e2e.Must(w.t, w.put(w.t.Context(), "/registry/configmaps/default/"+r.name, o))
	answer, code := w.do(http.MethodGet, pathOf(r.kind)+"/"+r.name, nil)
	if code != http.StatusOK {
		w.t.Fatalf("%s: %d %.300s", r.name, code, answer)
	}
	return answer
}

// deleteAll deletes the objects of all rows, and writes a small one of each kind behind them.
func (w *contentWriter) deleteAll() {
	w.t.Helper()
	for path, k := range w.kinds {
		if answer, code := w.do(http.MethodDelete, path+"?labelSelector="+url.QueryEscape("limits=row"), nil); code != http.StatusOK {
			w.t.Fatalf("delete %.100s: %d %.300s", path, code, answer)
		}
		w.behind(k)
	}
}
