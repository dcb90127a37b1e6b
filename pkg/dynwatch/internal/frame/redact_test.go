package frame_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// hiding are the options for Secrets, or for other objects without a redactor.
func hiding(r *frame.Redactor) frame.Options {
	if r == nil {
		return frame.Options{}
	}
	shape := frame.NewShape(frame.ShapeOptions{Secret: true}, r)
	return frame.Options{Shape: func() *frame.Shape { return shape }}
}

// TestSecretAgain: a Secret of the log that was written with more plain annotations becomes what
// it is with the present ones. Hashes stay.
func TestSecretAgain(t *testing.T) {
	raw := []byte(`{"metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"1","annotations":` +
		`{"plain":"canary","\u006fwn":"can\u0061ry","helm.sh/hook":"stays","hashed":"canary"}},"data":{"k":"canary"},"spec":{"data":"stays"}}`)
	read := func(plain ...string) ([]byte, *frame.Shape) {
		r := frame.NewRedactor([]byte("key"), plain...)
		o, err := frame.NewNormaliser("v1", "Secret", hiding(r)).Normalise(raw)
		must(t, err)
		return closed(t, &o), frame.NewShape(frame.ShapeOptions{Secret: true}, r)
	}
	before, _ := read("plain", "own")
	want, shape := read()
	if !strings.Contains(string(before), "canary") {
		t.Fatalf("nothing shows in %s", before)
	}
	if diff := cmp.Diff(string(want), string(shape.Again("shop", "a", before))); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// TestSecretAnnotations: copies of a Secret in annotations do not show, harmless
// annotations do.
func TestSecretAnnotations(t *testing.T) {
	const identity = `"name":"a","namespace":"shop","uid":"u","resourceVersion":"1"`
	cases := map[string]struct{ annotations, want string }{
		"copies": {
			`{"kapp.k14s.io/original":"canary","objectset.rio.cattle.io/applied":"canary","banzaicloud.com/last-applied":"canary","openshift.io/token-secret.value":"canary"}`,
			`{"kapp.k14s.io/original":"#","objectset.rio.cattle.io/applied":"#","banzaicloud.com/last-applied":"#","openshift.io/token-secret.value":"#"}`,
		},
		"harmless": {
			`{"helm.sh/hook":"pre-install","kubernetes.io/service-account.name":"sa","x":"canary","replicator.v1.mittwald.de/replicate-to":"b"}`,
			`{"helm.sh/hook":"pre-install","kubernetes.io/service-account.name":"sa","x":"#","replicator.v1.mittwald.de/replicate-to":"b"}`,
		},
		"named in the config": {`{"mine.example.com/a":"1","own":"2","owner":"canary"}`, `{"mine.example.com/a":"1","own":"2","owner":"#"}`},
		"no text":             {`{"x":{"y":["canary"]},"z":7}`, `{"x":"#","z":"#"}`},
		"no object":           {`["canary"]`, `"#"`},
		"null":                {`null`, `null`},
		"escaped key":         {`{"helm.sh/ho\u006fk":"post","\u0078":"canary"}`, `{"helm.sh/ho\u006fk":"post","\u0078":"#"}`},
	}
	n := frame.NewNormaliser("v1", "Secret", hiding(frame.NewRedactor([]byte("key"), "mine.example.com/*", "own")))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := n.Normalise([]byte(`{"metadata":{` + identity + `,"annotations":` + c.annotations + `}}`))
			must(t, err)
			_, got, _ := strings.Cut(hashText.ReplaceAllString(string(o.Data), `"#"`), `"annotations":`)
			if diff := cmp.Diff(c.want+"}}", got); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
	plain := frame.NewNormaliser("v1", "ConfigMap", frame.Options{})
	o, err := plain.Normalise([]byte(`{"metadata":{` + identity + `,"annotations":{"x":"stays"}}}`))
	if err != nil || !strings.Contains(string(o.Data), `"x":"stays"`) {
		t.Errorf("an annotation of another resource: %s, %v", o.Data, err)
	}
}
