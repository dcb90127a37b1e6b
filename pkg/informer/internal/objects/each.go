package objects

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/informd/informd/pkg/fieldpath"
)

// Each calls visit with each entry, until it returns false. It holds no lock meanwhile, so that the
// loop over the map continues in a changed map, which the language allows.
func (s *Store) Each(visit func(*Entry) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	unlocked := func(e *Entry) bool {
		s.mu.RUnlock()
		defer s.mu.RLock()
		return visit(e)
	}
	for _, e := range s.objects {
		if !unlocked(e) {
			return
		}
	}
}

// Masked decodes a new object with the values that the mask keeps.
func (b Blob) Masked(mask *fieldpath.Projection) (*unstructured.Unstructured, error) {
	text, err := b.json()
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(mask.Append(nil, text), &o.Object); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	return o, nil
}
