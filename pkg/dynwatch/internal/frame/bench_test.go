package frame_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// BenchmarkNormalise compares the byte path with what it replaces: decode into
// maps, delete managedFields, encode.
func BenchmarkNormalise(b *testing.B) {
	whole := pod("web-5d4f8c7b9-x2x4z", 12345)
	metadata := append(bytes.Clone(whole[:bytes.Index(whole, []byte(`,"spec"`))]), '}') // as in metadata mode
	for name, raw := range map[string][]byte{"pod": whole, "metadata": metadata, "configmap 1.5MiB": configMap(3 << 19), "secret": secretObject(7)} {
		var redactor *frame.Redactor
		if name == "secret" {
			redactor = frame.NewRedactor([]byte("key"))
		}
		n := frame.NewNormaliser("v1", "Pod", hiding(redactor))
		b.Run(name+"/bytes", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, err := n.Normalise(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/decoded", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				var object map[string]any
				must(b, json.Unmarshal(raw, &object))
				if metadata, ok := object["metadata"].(map[string]any); ok {
					delete(metadata, "managedFields")
				}
				if _, err := json.Marshal(object); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWatch compares a watch of the dynamic client over this package with one
// over client-go's own codec, from the body's bytes to the bytes for a sink.
func BenchmarkWatch(b *testing.B) {
	text := []byte(line("MODIFIED", pod("web-5d4f8c7b9-x2x4z", 12345)))
	config := &rest.Config{Host: "http://localhost"}
	endless := func() *http.Client { return &http.Client{Transport: body{&repeat{item: text, left: 1 << 60}}} }
	ours, err := frame.NewRESTClient(config, endless(), frame.NewNormaliser("v1", "Pod", frame.Options{}), false)
	must(b, err)
	stock, err := dynamic.NewForConfigAndClient(config, endless())
	must(b, err)
	for name, client := range map[string]dynamic.Interface{"bytes": dynamic.New(ours), "decoded": stock} {
		b.Run(name, func(b *testing.B) {
			w, err := client.Resource(pods).Watch(b.Context(), metav1.ListOptions{})
			must(b, err)
			defer w.Stop()
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for {
				switch o := (<-w.ResultChan()).Object.(type) {
				case *frame.Watched:
					for ; o != nil; o = o.Done() {
						if !b.Loop() {
							return
						}
					}
				case *unstructured.Unstructured:
					if !b.Loop() {
						return
					}
					o.SetManagedFields(nil)
					if _, err := o.MarshalJSON(); err != nil {
						b.Fatal(err)
					}
				default:
					b.Fatalf("%T", o)
				}
			}
		})
	}
}

// BenchmarkReadList is about one item of a long list, read and normalised.
func BenchmarkReadList(b *testing.B) {
	item := append(pod("web-5d4f8c7b9-x2x4z", 12345), ',')
	n := frame.NewNormaliser("v1", "Pod", frame.Options{})
	b.ReportAllocs()
	b.SetBytes(int64(len(item)))
	r := io.MultiReader(strings.NewReader(`{"items":[`), &repeat{item: item, left: 1 << 60})
	enough := errors.New("enough")
	if _, err := frame.ReadList(r, maxItem, func(raw []byte) error {
		if !b.Loop() {
			return enough
		}
		_, err := n.Normalise(raw)
		return err
	}); !errors.Is(err, enough) {
		b.Fatal(err)
	}
}

// TestNormaliseAllocates holds the number of allocations: the data and the block
// of strings.
func TestNormaliseAllocates(t *testing.T) {
	raw := pod("web-5d4f8c7b9-x2x4z", 12345)
	n := frame.NewNormaliser("v1", "Pod", frame.Options{})
	const want = 2 + poolDrops
	if got := testing.AllocsPerRun(100, func() {
		if _, err := n.Normalise(raw); err != nil {
			t.Fatal(err)
		}
	}); got > want {
		t.Errorf("%v allocations for a Pod, want at most %d", got, want)
	}
}
