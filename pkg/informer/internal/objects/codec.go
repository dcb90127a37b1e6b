package objects

import (
	"fmt"
	"reflect"
	"strings"

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
	// Each object behind sampleDistance others is a sample for the second dictionary. Objects in a
	// list are often periodic, but seldom with a prime.
	sampleDistance = 61
	mostSamples    = 32
	// mostScratch is the most memory that a compressor keeps for the next object, in bytes.
	mostScratch = 128 << 10
)

// Blob is an object as compressed JSON. Its bytes never change, so that queues and the store
// share them.
type Blob struct {
	Block []byte
	*form
}

// form is how to decode a block.
type form struct {
	dictionary *s2.Dict // nil for none
	into       reflect.Type
}

// json returns the JSON of the object, which the caller owns.
func (b Blob) json() (text []byte, err error) {
	if b.dictionary != nil {
		text, err = b.dictionary.Decode(nil, b.Block)
	} else {
		text, err = s2.Decode(nil, b.Block)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress object: %w", err)
	}
	return text, nil
}

// Object decodes a new copy.
func (b Blob) Object() (runtime.Object, error) {
	text, err := b.json()
	if err != nil {
		return nil, err
	}
	return Decode(text, b.into)
}

// UnstructuredType is the type of unstructured objects.
func UnstructuredType() reflect.Type { return reflect.TypeFor[unstructured.Unstructured]() }

// MetadataType is the type of metadata with the kind PartialObjectMetadata.
func MetadataType() reflect.Type { return reflect.TypeFor[metav1.PartialObjectMetadata]() }

// kinded is metadata with the kind of its resource. It names this form: objects are
// *metav1.PartialObjectMetadata.
type kinded struct{ metav1.PartialObjectMetadata }

// KindedType is the type of metadata with the kind of its resource.
func KindedType() reflect.Type { return reflect.TypeFor[kinded]() }

// TakesAll reports whether all objects of an API server can be decoded into a type: into those that it
// encodes objects of itself. The Go type of a custom resource may be stricter than its schema.
func TakesAll(into reflect.Type) bool {
	return into == UnstructuredType() || into == MetadataType() || into == KindedType() || strings.HasPrefix(into.PkgPath(), "k8s.io/api/")
}

// Decode decodes JSON into a new object of a type.
func Decode(text []byte, into reflect.Type) (runtime.Object, error) {
	made := into
	if into == KindedType() {
		made = MetadataType()
	}
	o, ok := reflect.TypeAssert[runtime.Object](reflect.New(made))
	if !ok {
		return nil, fmt.Errorf("decode object: %s is no runtime.Object", into)
	}
	target := any(o)
	if u, ok := o.(*unstructured.Unstructured); ok {
		target = &u.Object
	}
	if err := json.Unmarshal(text, target); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	switch into { // as client-go's clients: typed objects have no kind, and metadata has its own
	case UnstructuredType(), KindedType():
	case MetadataType():
		o.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	default:
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return o, nil
}

// compressor compresses the objects of one resource. The first object that is long enough becomes
// the dictionary, and later some objects that follow at a distance. It belongs to its store, whose
// lock it needs.
type compressor struct {
	form    *form
	scratch []byte
	// seen counts objects until the samples among them become the dictionary, 0 behind that.
	seen    int
	samples []byte
}

func (c *compressor) compress(text []byte, into reflect.Type) Blob {
	if c.form == nil {
		c.form, c.seen = &form{into: into}, 1
	}
	if c.form.into != into {
		c.form = &form{c.form.dictionary, into}
	}
	c.choose(text)
	scratch := c.scratch
	if n := s2.MaxEncodedLen(len(text)); n > len(scratch) {
		scratch = make([]byte, n)
		if n <= mostScratch {
			c.scratch = scratch
		}
	}
	var block []byte
	if c.form.dictionary != nil {
		block = c.form.dictionary.Encode(scratch, text)
	} else {
		block = s2.Encode(scratch, text)
	}
	return Blob{append(make([]byte, 0, len(block)), block...), c.form}
}

// choose chooses the dictionary. Blocks keep the one that they were made with.
func (c *compressor) choose(text []byte) {
	usable := len(text) >= shortestDictionary && len(text) <= longestDictionary
	if c.form.dictionary == nil && usable {
		c.use(text)
		return
	}
	if c.seen == 0 {
		return
	}
	if c.seen++; c.seen%sampleDistance != 0 || !usable {
		return
	}
	if len(c.samples)+len(text) <= longestDictionary {
		c.samples = append(c.samples, text...)
	}
	if len(c.samples)+len(text) > longestDictionary || c.seen >= mostSamples*sampleDistance {
		c.use(c.samples)
		c.seen, c.samples = 0, nil
	}
}

// use makes a text the dictionary of the next objects.
func (c *compressor) use(text []byte) {
	own := append(make([]byte, 0, len(text)+16), text...) // with less capacity, s2 copies it again
	c.form = &form{s2.MakeDictManual(own, 0), c.form.into}
}
