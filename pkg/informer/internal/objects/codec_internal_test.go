package objects

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func onePod(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../testdata/pod.json")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(text)
}

// TestReadersMeetDictionaries expects each object with one of its states, while the store gets its
// dictionaries and the readers change the objects.
func TestReadersMeetDictionaries(t *testing.T) {
	s := New(UnstructuredType(), nil, func(key string, err error) { t.Errorf("%s: %v", key, err) })
	const keys = 20
	put := func(n int) {
		key := fmt.Sprintf("a/%d", n%keys)
		text := fmt.Appendf(nil, `{"metadata":{"namespace":"a","name":"%d"},"n":%d,"same":%d,"text":"%s"}`, n%keys, n, n, strings.Repeat("text ", 30))
		s.Put(key, "uid", fmt.Sprint(n), text, UnstructuredType(), 0)
	}
	for n := range keys {
		put(n)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, o := range s.List() {
					content := o.(*unstructured.Unstructured).Object //nolint:forcetypeassert // its own type
					if content["n"] == nil || content["n"] != content["same"] || len(content) != 4 {
						t.Errorf("an object with parts of several states: %v", maps.Clone(content))
						return
					}
					scribble(content)
				}
			}
		})
	}
	for n := range 2 * sampleDistance * mostSamples {
		put(n)
	}
	close(done)
	readers.Wait()
}

// scribble changes all that is in an object.
func scribble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			scribble(value)
			v[key] = "changed"
		}
		v["added"] = true
	case []any:
		for i := range v {
			scribble(v[i])
			v[i] = "changed"
		}
	}
}

// TestDictionaries expects that each object returns as it was put, whatever dictionary the store has
// meanwhile, and that objects with similar ones before them become smaller.
func TestDictionaries(t *testing.T) {
	pod := onePod(t)
	var c compressor
	large := bytes.Repeat([]byte("large "), 50_000)
	texts := [][]byte{[]byte(`{}`), large}
	for n := range 2 * sampleDistance * mostSamples {
		texts = append(texts, bytes.ReplaceAll(pod[:2000+n%3000], []byte("f:"), []byte{byte('a' + n%20), ':'}))
	}
	var dictionaries []any
	for n, text := range texts {
		b := c.compress(text, UnstructuredType())
		if len(dictionaries) == 0 || dictionaries[len(dictionaries)-1] != b.dictionary {
			dictionaries = append(dictionaries, b.dictionary)
		}
		if got, err := b.json(); err != nil || !bytes.Equal(got, text) {
			t.Fatalf("object %d: %v, %q", n, err, got)
		}
	}
	if len(c.scratch) > mostScratch {
		t.Errorf("%d bytes are kept for the next object", len(c.scratch))
	}
	if len(dictionaries) != 3 { // none, the first object, the samples
		t.Errorf("%d dictionaries", len(dictionaries))
	}
	if typed := c.compress(pod, MetadataType()); typed.into != MetadataType() || typed.dictionary != c.form.dictionary {
		t.Error("an object of another type has another dictionary")
	}
}
