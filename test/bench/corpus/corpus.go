package corpus

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Form is a way in which an API server sends an object.
type Form int

// The forms. Frames end with a newline.
const (
	// Added and Modified are frames of a watch.
	Added Form = iota
	Modified
	// Item is an element of a list: without kind and apiVersion.
	Item

	forms
)

// Namespaces is over how many namespaces the objects of a corpus are spread:
// [Namespace] names them.
const Namespaces = 50

// Namespace is the name of the namespace of object i.
func Namespace(i int) string { return fmt.Sprintf("ns-%0*d", namespaceSlot.width(), i%Namespaces) }

// SentAnnotation is where each object has the time at which it was rendered, in
// the nanoseconds of [Object].Sent, with leading zeros.
const SentAnnotation = "bench.informd.dev/sent"

// Object says which object to render, and which revision of it.
type Object struct {
	// Index is which one, from 0.
	Index int
	// Revision is its resourceVersion, of ten digits.
	Revision uint64
	// Sent is a time in nanoseconds, for whoever measures how long the object takes.
	Sent int64
}

// Corpus is objects of one kind. It may be used concurrently.
type Corpus struct {
	Resource schema.GroupVersionResource
	Kind     string

	templates []template
}

// Append appends an object in a form to dst.
func (c *Corpus) Append(dst []byte, form Form, o Object) []byte {
	return c.templates[o.Index%len(c.templates)].forms[form].append(dst, o)
}

// Shapes is how many templates the objects share.
func (c *Corpus) Shapes() int { return len(c.templates) }

// MeanSize is the mean size of an object in a form, in bytes.
func (c *Corpus) MeanSize(form Form) float64 {
	sum := 0
	for i := range c.templates {
		sum += len(c.templates[i].forms[form].content)
	}
	return float64(sum) / float64(len(c.templates))
}
