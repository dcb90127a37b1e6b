package frame

import (
	"hash"
	"strings"
	"testing"
)

// brokenHash panics at its first use: it embeds no hash.
type brokenHash struct{ hash.Hash }

// TestFaultInHereIsOneMalformedObject: a bug in this package costs the object
// that hits it, not the process.
func TestFaultInHereIsOneMalformedObject(t *testing.T) {
	r := NewRedactor([]byte("key"))
	shape := NewShape(ShapeOptions{Secret: true}, r)
	n := NewNormaliser("v1", "Secret", Options{Shape: func() *Shape { return shape }})
	raw := []byte(`{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"data":{"k":"djEtY2FuYXJ5"}}`)
	line := []byte(`{"type":"ADDED","object":` + string(raw) + "}")
	calls := map[string]func() *Malformed{
		"list item": func() *Malformed {
			_, err := n.Normalise(raw)
			bad, _ := err.(*Malformed) //nolint:errorlint // it is never wrapped
			return bad
		},
		"watch frame": func() *Malformed {
			return n.frame(line, nil).watched.Err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			var bad *Malformed
			for range 100 { // the pool may drop what is put into it
				for r.hashes.Get() != nil {
					continue // a sound one would be taken first
				}
				r.hashes.Put(&brokenHash{})
				if bad = call(); bad != nil {
					break
				}
			}
			if bad == nil || !strings.HasPrefix(bad.Reason, "internal error") || bad.Raw != nil {
				t.Fatalf("got %+v", bad)
			}
			for taken := r.hashes.Get(); taken != nil; taken = r.hashes.Get() {
				t.Logf("took a broken %T out of the pool", taken)
			}
			if bad := call(); bad != nil {
				t.Errorf("afterwards: %+v", bad)
			}
		})
	}
}
