package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/watch"
)

// template is one shape of objects in all forms.
type template struct {
	forms [forms]rendered
}

// newTemplate renders an object of a built-in kind, which has kind, apiVersion and placeholders. The
// items of lists have no kind and apiVersion.
func newTemplate(object any) (t template, err error) {
	whole, err := json.Marshal(object)
	if err != nil {
		return t, err
	}
	item, err := withoutType(whole)
	if err != nil {
		return t, err
	}
	contents := [forms][]byte{Added: jsonFrame(watch.Added, whole), Modified: jsonFrame(watch.Modified, whole), Item: item}
	for form, content := range contents {
		if t.forms[form], err = newRendered(content); err != nil {
			return t, err
		}
	}
	return t, nil
}

// jsonFrame is what the API server writes for one event of a watch.
func jsonFrame(typ watch.EventType, object []byte) []byte {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", typ, object)
}

// withoutType cuts kind and apiVersion off the beginning of a built-in kind's JSON.
func withoutType(whole []byte) ([]byte, error) {
	_, rest, found := bytes.Cut(whole, []byte(`"metadata":`))
	if !found || !bytes.HasPrefix(whole, []byte(`{"kind":`)) {
		return nil, fmt.Errorf("kind, apiVersion and metadata do not come first in %.200s", whole)
	}
	return append([]byte(`{"metadata":`), rest...), nil
}
