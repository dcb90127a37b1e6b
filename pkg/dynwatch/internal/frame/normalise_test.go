package frame_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

func TestNormalise(t *testing.T) {
	const id = `"name":"a","uid":"u","resourceVersion":"1"`
	for name, test := range map[string]struct{ raw, want string }{
		"Minimal":          {`{"metadata":{` + id + `}}`, `{"metadata":{` + id + `}}`},
		"OwnKind":          {`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{` + id + `}}`, `{"metadata":{` + id + `}}`},
		"KindBetween":      {`{"spec":1,"kind":"x","metadata":{` + id + `},"apiVersion":{"a":1}}`, `{"spec":1,"metadata":{` + id + `}}`},
		"ManagedFirst":     {`{"metadata":{"managedFields":[{"a":1}],` + id + `}}`, `{"metadata":{` + id + `}}`},
		"ManagedLast":      {`{"metadata":{` + id + `,"managedFields":[{"a":1}]},"x":1}`, `{"metadata":{` + id + `},"x":1}`},
		"LastApplied":      {`{"metadata":{"annotations":{"a":"1","kubectl.kubernetes.io/last-applied-configuration":"{}","b":"2"},` + id + `}}`, `{"metadata":{"annotations":{"a":"1","b":"2"},` + id + `}}`},
		"OnlyLastApplied":  {`{"metadata":{` + id + `,"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"managedFields":[]}}`, `{"metadata":{` + id + `}}`},
		"EmptyAnnotations": {`{"metadata":{` + id + `,"annotations":{}}}`, `{"metadata":{` + id + `,"annotations":{}}}`},
		"ElsewhereKept":    {`{"metadata":{` + id + `},"spec":{"managedFields":[],"kind":"k","metadata":{"managedFields":[1]}}}`, `{"metadata":{` + id + `},"spec":{"managedFields":[],"kind":"k","metadata":{"managedFields":[1]}}}`},
		"BytesKept":        {`{"metadata":{` + id + `},"z":1.50e+10,"a":"\u003cA\/\ud800","a":12345678901234567890}`, `{"metadata":{` + id + `},"z":1.50e+10,"a":"\u003cA\/\ud800","a":12345678901234567890}`},
		"DataKept":         {`{"data":{"a":"b"},"metadata":{` + id + `}}`, `{"data":{"a":"b"},"metadata":{` + id + `}}`},
		"WhiteSpace":       {" { \"metadata\" :\n{ " + strings.ReplaceAll(id, ",", " , ") + " } , \"a b\" : [ 1 , \" \" ] } \r\n", `{"metadata":{` + id + `},"a b":[1," "]}`},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := frame.NewNormaliser("apps/v1", "Deployment", frame.Options{}).Normalise([]byte(test.raw))
			must(t, err)
			if closed := form.CloseDeletedData(o.Data, false); cap(o.Data) != len(closed) {
				t.Errorf("there is room for %d bytes, want %d", cap(o.Data), len(closed))
			}
			want := `{"apiVersion":"apps/v1","kind":"Deployment",` + test.want[1:]
			if diff := cmp.Diff(want, string(closed(t, &o))); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	const head = `{"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"5"`
	known := frame.Malformed{Namespace: "shop", Name: "a", UID: "u", ResourceVersion: 5}
	for name, test := range map[string]struct {
		raw    string
		want   frame.Malformed
		reason string
	}{
		"Cut":           {head, known, "invalid JSON: the text ends too early at byte 74"},
		"CutLater":      {head + `},"spec":{"a":`, known, "invalid JSON: the text ends too early at byte 88"},
		"BadSpec":       {head + `},"spec":{"a":-}}`, known, "invalid JSON: a number is malformed at byte 88"},
		"NoName":        {`{"metadata":{"uid":"u","resourceVersion":"5"}}`, frame.Malformed{UID: "u", ResourceVersion: 5}, "the object has no name"},
		"NoUID":         {`{"metadata":{"name":"a"}}`, frame.Malformed{Name: "a"}, "the object has no uid"},
		"NoRevision":    {`{"metadata":{"name":"a","uid":"u"}}`, frame.Malformed{Name: "a", UID: "u"}, "the object has no resourceVersion"},
		"WordRevision":  {`{"metadata":{"name":"a","uid":"u","resourceVersion":"5a"}}`, frame.Malformed{Name: "a", UID: "u"}, "the resourceVersion is not a decimal number"},
		"NumberForName": {`{"metadata":{"name":7,"uid":"u","resourceVersion":"5"}}`, frame.Malformed{UID: "u", ResourceVersion: 5}, "the name is not a string"},
		"TwoUIDs":       {head + `,"u\u0069d":"v"}}`, known, "the object has metadata.uid twice"},
		"TwoMetadata":   {head + `},"metadata":{}}`, known, "the object has metadata twice"},
		"TwoManaged":    {head + `,"managedFields":[],"managedFields":[]}}`, known, "the object has metadata.managedFields twice"},
		"TwoOwners":     {head + `,"ownerReferences":[],"ownerReferences":[]}}`, known, "the object has metadata.ownerReferences twice"},
		"NoMetadata":    {`{}`, frame.Malformed{}, "the object has no metadata"},
		"ListMetadata":  {`{"metadata":[]}`, frame.Malformed{}, "the metadata is not an object"},
		"NotUTF8":       {head + "},\"spec\":\"\xed\xa0\x80\"}", known, "invalid JSON: a string is not valid UTF-8 at byte 84"},
		"Null":          {`null`, frame.Malformed{}, "invalid JSON: an object is expected at byte 0"},
		"Nothing":       {``, frame.Malformed{}, "invalid JSON: the text ends too early at byte 0"},
		"Large":         {head + `},"spec":` + strings.Repeat(" ", 100<<10), known, "invalid JSON: the text ends too early at byte 102483"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := frame.NewNormaliser("v1", "Pod", frame.Options{}).Normalise([]byte(test.raw))
			got, ok := errors.AsType[*frame.Malformed](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			test.want.Reason, test.want.Size = test.reason, len(test.raw)
			if test.raw != "" {
				test.want.Raw = []byte(test.raw[:min(len(test.raw), 64<<10)])
			} else {
				test.want.Raw = []byte{}
			}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("malformed (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.Error(), test.reason) {
				t.Errorf("error %q", got)
			}
		})
	}
}

// TestIdentityIsBounded: an object whose names no event could carry is refused, with names
// that are just short enough it is not.
func TestIdentityIsBounded(t *testing.T) {
	const most = 8 << 10
	object := func(namespace, name, uid int) []byte {
		return fmt.Appendf(nil, `{"metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":"5"}}`,
			strings.Repeat("s", namespace), strings.Repeat("n", name), strings.Repeat("u", uid))
	}
	n := frame.NewNormaliser("rbac.authorization.k8s.io/v1", "Role", frame.Options{})
	if _, err := n.Normalise(object(63, most-63-36, 36)); err != nil {
		t.Errorf("%d bytes: %v", most, err)
	}
	for _, raw := range [][]byte{object(63, most-62-36, 36), object(5, 32_500, 36), object(most, 1, 1), object(1, 1, most)} {
		_, err := n.Normalise(raw)
		bad, ok := errors.AsType[*frame.Malformed](err)
		if !ok || !strings.Contains(bad.Reason, "the limit is 8192") {
			t.Errorf("error %.200v", err)
		}
	}
}

// TestDepth: the limit is encoding/json's, to the level.
func TestDepth(t *testing.T) {
	n := frame.NewNormaliser("v1", "Pod", frame.Options{})
	for _, depth := range []int{9_999, 10_000, 10_001, 2_000_000} {
		objects := `{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":` +
			strings.Repeat(`{"a":`, depth-2) + "{}" + strings.Repeat("}", depth-1)
		for kind, raw := range map[string][]byte{"arrays": deep(depth), "objects": []byte(objects)} {
			if _, err := n.Normalise(raw); (err == nil) != json.Valid(raw) {
				t.Errorf("%d levels of %s: %v, encoding/json says %t", depth, kind, err, json.Valid(raw))
			}
		}
	}
}

// redacted returns the normalised object of a Secret.
func redacted(t *testing.T, r *frame.Redactor, raw string) string {
	t.Helper()
	o, err := frame.NewNormaliser("v1", "Secret", hiding(r)).Normalise([]byte(raw))
	must(t, err)
	return string(closed(t, &o))
}

func TestRedact(t *testing.T) {
	r := frame.NewRedactor([]byte("key"))
	const head = `{"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"1"},`
	hashes := func(data string) []string {
		return hashText.FindAllString(redacted(t, r, head+data+`,"type":"Opaque"}`), -1)
	}
	one := hashes(`"data":{"k":"djE="}`)
	if len(one) != 1 {
		t.Fatalf("hashes %v", one)
	}
	for name, test := range map[string]struct {
		data string
		same bool
	}{
		"Same":           {`"data":{"k":"djE="}`, true},
		"OtherEscapes":   {`"data":{"\u006b":"\u0064jE="}`, true},
		"WhiteSpace":     {"\"data\": {\n\"k\" : \"djE=\" }", true},
		"OtherValue":     {`"data":{"k":"djI="}`, false},
		"OtherKey":       {`"data":{"l":"djE="}`, false},
		"OtherField":     {`"stringData":{"k":"djE="}`, false},
		"SplitOtherwise": {`"data":{"kd":"jE="}`, false},
		"Whole":          {`"data":["djE="]`, false},
		"WholeText":      {`"data":"djE="`, false},
		"NoText":         {`"data":{"k":{"djE=":1}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := hashes(test.data)
			if len(got) != 1 || (got[0] == one[0]) != test.same {
				t.Errorf("hash %v, want the same as %v: %t", got, one, test.same)
			}
		})
	}
	for name, other := range map[string]string{
		"OtherName":      strings.Replace(head, `"a"`, `"b"`, 1),
		"OtherNamespace": strings.Replace(head, `"shop"`, `"shoq"`, 1),
	} {
		if strings.Contains(redacted(t, r, other+`"data":{"k":"djE="}}`), one[0]) {
			t.Errorf("%s: the same hash", name)
		}
	}
	if strings.Contains(redacted(t, frame.NewRedactor([]byte("other")), head+`"data":{"k":"djE="}}`), one[0]) {
		t.Error("another key gives the same hash")
	}
	last := `{"data":{"k":"djE="},"metadata":{"resourceVersion":"2","uid":"v","namespace":"shop","name":"a"}}`
	if !strings.Contains(redacted(t, r, last), one[0]) {
		t.Error("the hash depends on where the metadata is, or on the uid or revision")
	}
	want := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"1"},"data":` + hashes(`"data":[]`)[0] + `,"immutable":true}`
	if diff := cmp.Diff(want, redacted(t, r, head+`"data":[ ],"immutable":true}`), cmp.Transformer("hash", func(s string) string { return hashText.ReplaceAllString(s, "#") })); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// TestCanary: no byte of a Secret's values gets out, whatever is done to the frame.
func TestCanary(t *testing.T) {
	n := frame.NewNormaliser("v1", "Secret", hiding(frame.NewRedactor([]byte("key"))))
	// What follows the values, or stands in their place, must not save them.
	raw := secretObject(7)
	secretLast := bytes.Replace(raw, []byte(`{"kind"`), []byte(`{"stringData":{"x":"`+canary+`"},"spec":{},"kind"`), 1)
	check := func(what string, raw []byte) {
		o, err := n.Normalise(raw)
		out := fmt.Sprintf("%s %s %s", o.Data, o.Name, o.UID)
		if bad, ok := errors.AsType[*frame.Malformed](err); ok {
			out = fmt.Sprintf("%v %+v %s", bad, *bad, bad.Raw)
		}
		if strings.Contains(out, canary[:8]) {
			t.Fatalf("%s: the value shows in %s", what, out)
		}
	}
	for i := range raw {
		check("cut", raw[:i])
		for _, c := range []byte(`"\{}[]:, x0`) {
			changed := bytes.Clone(raw)
			changed[i] = c
			if !renamed(changed) {
				check("changed", changed)
			}
		}
	}
	check("twice", secretLast)
	check("whole", bytes.Replace(raw, []byte(`"user"`), []byte(`"n":{"x":"`+canary+`"},"user"`), 1))
}

// renamed reports whether a Secret lacks one of the keys behind which values are
// replaced or cut: under another name they are not a Secret's values.
func renamed(raw []byte) bool {
	for _, key := range []string{"metadata", "annotations", lastApplied, "data", "stringData"} {
		if !bytes.Contains(raw, []byte(`"`+key+`":`)) {
			return true
		}
	}
	return false
}

// TestConcurrent: one Normaliser serves many goroutines.
func TestConcurrent(t *testing.T) {
	n := frame.NewNormaliser("v1", "Secret", hiding(frame.NewRedactor([]byte("key"))))
	want, err := n.Normalise(secretObject(7))
	must(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got, err := n.Normalise(secretObject(7)); err != nil || !bytes.Equal(got.Data, want.Data) {
					t.Errorf("%v %s", err, got.Data)
				}
				if _, err := n.Normalise([]byte(`{"metadata":{"name":"a"}`)); err == nil {
					t.Error("accepted")
				}
			}
		})
	}
	wg.Wait()
}

// What is not wanted is identified, checked and not rendered, in a list as in a
// watch.
func TestOnly(t *testing.T) {
	n := frame.NewNormaliser("v1", "Pod", frame.Options{Wants: func(namespace string) bool { return namespace == "shop" }})
	const object = `{"metadata":{"namespace":%q,"name":"x","uid":"u","resourceVersion":"7"},"spec":{}}`
	for namespace, rendered := range map[string]bool{"shop": true, "bank": false} {
		o, err := n.Normalise(fmt.Appendf(nil, object, namespace))
		if err != nil || o.Namespace != namespace || o.Name != "x" || o.UID != "u" || o.ResourceVersion != 7 || (o.Data != nil) != rendered {
			t.Errorf("%s: %+v, %v", namespace, o, err)
		}
	}
	if _, err := n.Normalise([]byte(`{"metadata":{"namespace":"bank","name":"x"}}`)); err == nil {
		t.Error("an object without a uid was taken")
	}
}

// TestExact: nothing of an object is dropped or hashed, also behind the other options of a
// normaliser.
func TestExact(t *testing.T) {
	const rest = `"metadata":{"managedFields":[{"manager":"a"}],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","b":"c"},` +
		`"name":"a","uid":"u","resourceVersion":"1"},"data":{"password":"aHVudGVyMg=="},"stringData":{"c":"d"}}`
	n := frame.NewNormaliser("v1", "Secret", frame.Options{
		Exact: true, Wants: func(string) bool { return true }, Shape: func() *frame.Shape { return nil },
	})
	o, err := n.Normalise([]byte("{" + rest))
	must(t, err)
	if got, want := string(closed(t, &o)), `{"apiVersion":"v1","kind":"Secret",`+rest; got != want {
		t.Errorf("object\n got %s\nwant %s", got, want)
	}
}

// TestExactMalformed: the report about a Secret holds no bytes of it.
func TestExactMalformed(t *testing.T) {
	_, err := frame.NewNormaliser("v1", "Secret", frame.Options{Exact: true}).Normalise([]byte(`{"data":{"password":"aHVudGVyMg=="}}`))
	bad, ok := err.(*frame.Malformed) //nolint:errorlint // always that type
	if !ok || bad.Raw != nil {
		t.Errorf("error %#v, want a Malformed without bytes", err)
	}
}
