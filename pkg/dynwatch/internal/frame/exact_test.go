package frame_test

import (
	"testing"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

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
