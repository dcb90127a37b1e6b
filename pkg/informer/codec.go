package informer

import (
	"fmt"
	"reflect"

	"github.com/klauspost/compress/s2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

const (
	// shortestDictionary is the least size of an object that becomes a dictionary, in bytes.
	shortestDictionary = 128
	// longestDictionary is the most that s2 takes.
	longestDictionary = s2.MaxDictSize
)

// blob is an object as compressed JSON. Its bytes never change, so that queues and the store
// share them.
type blob struct {
	block      []byte
	dictionary *s2.Dict // nil for none
	into       reflect.Type
}

// json returns the JSON of the object, which the caller owns.
func (b blob) json() ([]byte, error) {
	if b.dictionary != nil {
		return b.dictionary.Decode(nil, b.block)
	}
	return s2.Decode(nil, b.block)
}

// object decodes a new copy.
func (b blob) object() (runtime.Object, error) {
	text, err := b.json()
	if err != nil {
		return nil, fmt.Errorf("decompress object: %w", err)
	}
	return decode(text, b.into)
}

func unstructuredType() reflect.Type { return reflect.TypeFor[unstructured.Unstructured]() }

func metadataType() reflect.Type { return reflect.TypeFor[metav1.PartialObjectMetadata]() }

// decode decodes JSON into a new object of a type.
func decode(text []byte, into reflect.Type) (runtime.Object, error) {
	if into == unstructuredType() {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &o.Object); err != nil {
			return nil, fmt.Errorf("decode object: %w", err)
		}
		return o, nil
	}
	o, ok := reflect.TypeAssert[runtime.Object](reflect.New(into))
	if !ok {
		return nil, fmt.Errorf("decode object: %s is no runtime.Object", into)
	}
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	// As client-go's clients: typed objects have no kind, and metadata has its own.
	var kind schema.GroupVersionKind
	if into == metadataType() {
		kind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o, nil
}

// compressor compresses the objects of one resource. The first object that is long enough
// becomes the dictionary. It belongs to its store, whose lock it needs.
type compressor struct{ dictionary *s2.Dict }

func (c *compressor) compress(text []byte, into reflect.Type) blob {
	if c.dictionary == nil && len(text) >= shortestDictionary && len(text) <= longestDictionary {
		own := append(make([]byte, 0, len(text)+16), text...) // s2 copies it otherwise
		c.dictionary = s2.MakeDictManual(own, 0)
	}
	var block []byte
	if c.dictionary != nil {
		block = c.dictionary.Encode(nil, text)
	} else {
		block = s2.Encode(nil, text)
	}
	// Encode returns room for incompressible text, which the store must not keep.
	return blob{append(make([]byte, 0, len(block)), block...), c.dictionary, into}
}
