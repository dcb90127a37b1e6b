package frame_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

var hashText = regexp.MustCompile(`"hmac-sha256:[0-9a-f]{32}"`)

// FuzzNormalise holds the byte path equal to the decoded reference: what is
// accepted, what is read, and every byte that comes out.
func FuzzNormalise(f *testing.F) {
	for _, raw := range objects() {
		f.Add(raw, false)
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, secret bool) {
		var redactor *frame.Redactor
		if secret {
			redactor = frame.NewRedactor([]byte("key"))
		}
		given := bytes.Clone(raw)
		got, err := frame.NewNormaliser("v1", "Kind", hiding(redactor)).Normalise(raw)
		if !bytes.Equal(raw, given) {
			t.Fatal("Normalise changed its input")
		}
		compare(t, raw, secret, got, err)
	})
}

func compare(t *testing.T, raw []byte, secret bool, got frame.Object, err error) {
	t.Helper()
	namespace, name, uid, rv, want, refused := reference{"v1", "Kind", secret}.normalise(raw)
	if (err != nil) != (refused != nil) {
		t.Fatalf("Normalise: %v; reference: %v\n%q", err, refused, raw)
	}
	if err != nil {
		var bad *frame.Malformed
		if !errors.As(err, &bad) {
			t.Fatalf("the error is a %T", err)
		}
		if secret && bad.Raw != nil {
			t.Error("the report about a Secret holds its bytes")
		}
		return
	}
	object := closed(t, &got)
	if secret {
		object = hashText.ReplaceAll(object, []byte(`"<hash>"`))
	}
	got.Data = nil
	if diff := cmp.Diff(frame.Object{ID: form.ObjectID(uid, rv, 0), Namespace: namespace, Name: name, UID: uid, ResourceVersion: rv}, got); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if !bytes.Equal(object, want) {
		t.Errorf("object\n got %s\nwant %s\n raw %s", object, want, raw)
	}
	if bytes.ContainsAny(object, "\n\r") {
		t.Error("the object is not one line")
	}
	if !secret {
		sameValue(t, raw, object)
	}
}

// sameValue compares the decoded values, so that a mistake that the reference's
// own bytes share with the code cannot hide.
func sameValue(t *testing.T, raw, object []byte) {
	t.Helper()
	decode := func(data []byte) map[string]any {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var v map[string]any
		must(t, d.Decode(&v))
		return v
	}
	want, got := decode(raw), decode(object)
	want["apiVersion"], want["kind"] = "v1", "Kind"
	metadata, ok := want["metadata"].(map[string]any)
	if !ok {
		t.Fatal("accepted without metadata")
	}
	delete(metadata, "managedFields")
	annotations, ok := metadata["annotations"].(map[string]any)
	if _, there := annotations[lastApplied]; ok && there {
		if delete(annotations, lastApplied); len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	// Not go-cmp, which takes exponential time over the nesting.
	if !reflect.DeepEqual(want, got) {
		t.Errorf("decoded object\n got %v\nwant %v", got, want)
	}
}
