package corpus_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/test/bench/corpus"
)

func TestObjectsAreWhatTheyAreSaidToBe(t *testing.T) {
	c, err := corpus.Pods()
	if err != nil {
		t.Fatal(err)
	}
	managed, all := 0, 0
	for i := range c.Shapes() {
		frame := c.Append(nil, corpus.Added, corpus.Object{Index: i, Revision: 1_000_000_042, Sent: 77})
		var event struct {
			Type   string
			Object unstructured.Unstructured
		}
		if err := json.Unmarshal(frame, &event); err != nil {
			t.Fatal(err)
		}
		o := event.Object
		if len(frame) < 5_000 || len(frame) > 11_200 {
			t.Errorf("object %d has %d bytes", i, len(frame))
		}
		if event.Type != "ADDED" || o.GetKind() != c.Kind || o.GetResourceVersion() != "1000000042" || o.GetNamespace() != corpus.Namespace(i) {
			t.Errorf("object %d: %s %s %s %s", i, event.Type, o.GetKind(), o.GetResourceVersion(), o.GetNamespace())
		}
		if sent := o.GetAnnotations()[corpus.SentAnnotation]; sent != fmt.Sprintf("%019d", 77) {
			t.Errorf("object %d was sent at %q", i, sent)
		}
		b, err := json.Marshal(o.GetManagedFields())
		if err != nil {
			t.Fatal(err)
		}
		managed, all = managed+len(b), all+len(frame)
	}
	share := float64(managed) / float64(all)
	t.Logf("%d shapes, %.0f bytes, %.0f%% managedFields", c.Shapes(), c.MeanSize(corpus.Modified), 100*share)
	if share < 0.30 || share > 0.42 {
		t.Errorf("%.2f of the bytes are managedFields", share)
	}
}
