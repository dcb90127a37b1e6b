package corpus_test

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/informd/informd/test/bench/corpus"
)

func TestObjectsAreWhatTheyAreSaidToBe(t *testing.T) {
	tests := map[string]struct {
		resource              string
		least, most           int // bytes
		leastShare, mostShare float64
	}{
		"pods":       {"pods", 5_000, 11_200, 0.30, 0.42},
		"samples":    {"samples", 700, 1_500, 0.1, 0.6},
		"configmaps": {"configmaps", 100 << 10, 1_200 << 10, 0, 0.05},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := corpus.ByName(tt.resource)
			if err != nil {
				t.Fatal(err)
			}
			managed, all := 0, 0
			for i := range c.Shapes() {
				frame := c.Append(nil, corpus.Added, corpus.Object{Index: i, Revision: 1_000_000_042, Sent: 77})
				var event struct {
					Type   string
					Object json.RawMessage
				}
				if err := json.Unmarshal(frame, &event); err != nil {
					t.Fatal(err)
				}
				var o unstructured.Unstructured
				if err := o.UnmarshalJSON(event.Object); err != nil {
					t.Fatal(err)
				}
				if len(frame) < tt.least || len(frame) > tt.most {
					t.Errorf("object %d has %d bytes, want %d to %d", i, len(frame), tt.least, tt.most)
				}
				if event.Type != "ADDED" || o.GetKind() != c.Kind || o.GetResourceVersion() != "1000000042" || o.GetNamespace() != corpus.Namespace(i) {
					t.Errorf("object %d: %s %s %s %s", i, event.Type, o.GetKind(), o.GetResourceVersion(), o.GetNamespace())
				}
				if sent := o.GetAnnotations()[corpus.SentAnnotation]; sent != fmt.Sprintf("%019d", 77) {
					t.Errorf("object %d was sent at %q", i, sent)
				}
				o2 := metav1.ObjectMeta{ManagedFields: o.GetManagedFields()}
				b, err := json.Marshal(o2.ManagedFields)
				if err != nil {
					t.Fatal(err)
				}
				managed, all = managed+len(b), all+len(frame)
			}
			share := float64(managed) / float64(all)
			t.Logf("%d shapes, %.0f bytes, %.0f%% managedFields", c.Shapes(), c.MeanSize(corpus.Modified), 100*share)
			if share < tt.leastShare || share > tt.mostShare {
				t.Errorf("%.2f of the bytes are managedFields, want %.2f to %.2f", share, tt.leastShare, tt.mostShare)
			}
		})
	}
}
