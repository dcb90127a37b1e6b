package frame

import (
	"regexp"
	"slices"
	"time"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/internal/jsonend"
	"github.com/informd/informd/internal/search"
	"github.com/informd/informd/pkg/fieldpath"
)

// Shape is what becomes of normalised objects by the rules of their resource: what they
// keep, lose, and have replaced by a hash. It is safe for concurrent use. A nil Shape
// changes nothing.
type Shape struct {
	// projection is nil if everything stays; again is it for what has been redacted.
	projection, again *fieldpath.Projection

	redact   *fieldpath.Set
	patterns []*regexp.Regexp
	// sizes are those of the patterns' programs.
	sizes    []int
	redactor *Redactor
	// identity are the locations that no pattern is held against.
	identity [][]byte
	// actor and owner say what is read of an object beside what goes into its Data.
	actor, owner bool
	// secret leads to what is replaced in Secrets, nil for other objects.
	secret *fieldpath.Set
}

// ShapeOptions are what a shape is made of. They are comparable.
type ShapeOptions struct {
	// Rules are what becomes of the objects, nil for nothing.
	Rules *fieldpath.Rules
	// Actor and Owner have [Object.Actor] and [Object.Owner] read, unless Rules redact what
	// they are read from. Patterns see neither: see [Shape.Shows].
	Actor, Owner bool
	// Secret: the objects are Secrets, whose values do not show.
	Secret bool
}

// NewShape returns the shape that the options describe, nil for none. The hash of the
// redactor replaces each redacted value.
func NewShape(o ShapeOptions, redactor *Redactor) *Shape {
	if o == (ShapeOptions{}) {
		return nil
	}
	s := &Shape{
		redactor: redactor,
		actor:    o.Actor && !o.Rules.RedactsAround("metadata", "managedFields"),
		owner:    o.Owner && !o.Rules.RedactsAround("metadata", "ownerReferences"),
	}
	if o.Secret {
		s.secret = secretSet()
	}
	if o.Rules == nil {
		return s
	}
	s.projection, s.again, s.patterns = o.Rules.Projection(), o.Rules.ProjectionAgain(), o.Rules.Patterns
	for _, p := range s.patterns {
		size, err := search.Size(p.String())
		if err != nil {
			size = search.MaxSize // the rules were checked
		}
		s.sizes = append(s.sizes, size)
	}
	if o.Rules.Redacts() {
		s.redact = fieldpath.NewSet(o.Rules.Redact...)
	}
	for _, place := range fieldpath.Identity() {
		s.identity = append(s.identity, fieldpath.Location(place...))
	}
	return s
}

// Shows reports whether a member of an event's data that was read from an object, JSON,
// may go out: no pattern finds anything in its texts that is to be replaced.
func (s *Shape) Shows(member []byte) bool {
	if s == nil || len(s.patterns) == 0 {
		return true
	}
	shows, left := true, newBudget()
	r := fieldpath.Rewriter{Text: func(dst []byte, m fieldpath.Match) ([]byte, bool) {
		text, _ := jsonend.Decode(m.Value)
		shows = shows && len(s.find(left, text, false)) == 0
		return dst, false
	}}
	_ = r.Append(nil, member)
	return shows
}

func (s *Shape) asksActor() bool { return s != nil && s.actor }

// AsksOwner reports whether [Object.Owner] is read.
func (s *Shape) AsksOwner() bool { return s != nil && s.owner }

// changes reports whether objects are not what they are in the normaliser's view.
func (s *Shape) changes() bool {
	return s != nil && (s.projection != nil || s.redacts() || s.secret != nil)
}

// redacts reports whether the objects have values that must not show.
func (s *Shape) redacts() bool { return s != nil && s.redact != nil }

// Again returns an object of the log in this shape; the log may hold it in another shape.
// Redacted values stay, and so does an object that already has this shape. Again may return
// object itself.
func (s *Shape) Again(namespace, name string, object []byte) []byte {
	if s == nil {
		return object
	}
	if s.projection != nil {
		object = s.again.Append(nil, object)
	}
	if s.redacts() {
		object = s.hide(nil, object, Object{Namespace: namespace, Name: name}, true)
	}
	if s.secret != nil {
		object = s.hideSecret(nil, object, Object{Namespace: namespace, Name: name}, true)
	}
	return object
}

// data renders the beginning of an event's data, given the normalised object o in
// scratch.
func (s *Shape) data(b *buffers, o *Object, m *Memory) {
	if s.secret != nil {
		b.swap(s.hideSecret(b.spare[:0], b.object, *o, false))
	}
	if s.projection != nil {
		b.swap(s.projection.Append(b.spare[:0], b.object))
	}
	if s.redacts() {
		b.swap(s.hide(b.spare[:0], b.object, *o, false))
	}
	dst := form.OpenData(m.room(len(b.object) + form.DataOverhead))
	o.Data = append(dst, b.object...)
}

// stretch is text[from:to].
type stretch struct{ from, to int }

// The limits of the search in one object: the sum of the products of a text's bytes and
// the steps of a pattern's program, and the time after which no further match is searched
// for.
const (
	maxSearch  = 128 << 20
	searchTime = 3 * time.Second
)

// budget is what of the limits is left for an object.
type budget struct {
	steps int
	until time.Time
}

func newBudget() *budget { return &budget{maxSearch, time.Now().Add(searchTime)} }

// find returns what the patterns match, in order and joined where it overlaps: the whole
// text if the search exceeds the budget.
func (s *Shape) find(left *budget, text []byte, again bool) []stretch {
	var all []stretch
	for i, p := range s.patterns {
		left.steps -= len(text) * s.sizes[i]
		if left.steps < 0 || !search.All(p, text, time.Until(left.until), func(from, to int) bool {
			if from < to {
				all = append(all, stretch{from, to})
			}
			return true
		}) {
			all = []stretch{{0, len(text)}}
			break
		}
	}
	if again {
		all = slices.DeleteFunc(all, func(one stretch) bool { return insideHash(text, one) })
	}
	slices.SortFunc(all, func(a, b stretch) int { return a.from - b.from })
	joined := all[:0]
	for _, one := range all {
		if n := len(joined); n > 0 && one.from < joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, one.to)
			continue
		}
		joined = append(joined, one)
	}
	return joined
}

// insideHash reports whether what was matched is a hash or part of one.
func insideHash(text []byte, one stretch) bool {
	const size = redactedSize - len(`""`)
	for from := max(0, one.to-size); from <= one.from; from++ {
		if to := from + size; to <= len(text) && made(text[from:to]) {
			return true
		}
	}
	return false
}

// buffers are where an object is shaped, used again for the next one.
type buffers struct{ object, spare []byte }

// swap makes next, which was made in spare, the object.
func (b *buffers) swap(next []byte) { b.object, b.spare = next, b.object }

// kept returns the buffers that the next pass may use: none, if an object made them
// large.
func (b *buffers) kept() buffers {
	if cap(b.object) > keptSize || cap(b.spare) > keptSize {
		return buffers{}
	}
	return buffers{object: b.object[:0], spare: b.spare[:0]}
}
