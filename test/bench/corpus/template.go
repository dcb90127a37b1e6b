package corpus

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// template is one shape of objects in all forms.
type template struct {
	forms [forms]rendered
}

// newTemplate renders an object, which has kind, apiVersion and placeholders. The
// items of lists of built-in kinds have no kind and apiVersion.
func newTemplate(object any, builtIn bool) (template, error) {
	whole, err := json.Marshal(object)
	if err != nil {
		return template{}, err
	}
	partial, err := partialOf(whole)
	if err != nil {
		return template{}, err
	}
	metadata, err := json.Marshal(partial)
	if err != nil {
		return template{}, err
	}
	item := whole
	if builtIn {
		if item, err = withoutType(whole); err != nil {
			return template{}, err
		}
	}
	contents := [forms][]byte{
		Added:            jsonFrame(watch.Added, whole),
		Modified:         jsonFrame(watch.Modified, whole),
		Item:             item,
		MetadataAdded:    jsonFrame(watch.Added, metadata),
		MetadataModified: jsonFrame(watch.Modified, metadata),
		MetadataItem:     metadata,
	}
	if contents[ProtobufAdded], err = ProtobufFrame(watch.Added, partial); err != nil {
		return template{}, err
	}
	if contents[ProtobufModified], err = ProtobufFrame(watch.Modified, partial); err != nil {
		return template{}, err
	}
	var t template
	for form, content := range contents {
		if t.forms[form], err = newRendered(content); err != nil {
			return template{}, err
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

func partialOf(whole []byte) (*metav1.PartialObjectMetadata, error) {
	var partial metav1.PartialObjectMetadata
	if err := json.Unmarshal(whole, &partial); err != nil {
		return nil, err
	}
	partial.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
	return &partial, nil
}

// ProtobufFrame is an event of a metadata-only watch in protobuf: its length in
// four bytes, and a WatchEvent that has the object in it.
func ProtobufFrame(typ watch.EventType, partial *metav1.PartialObjectMetadata) ([]byte, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	var object bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(partial, &object); err != nil {
		return nil, err
	}
	event, err := (&metav1.WatchEvent{Type: string(typ), Object: runtime.RawExtension{Raw: object.Bytes()}}).Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...), nil
}
