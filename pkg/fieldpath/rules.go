package fieldpath

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/informd/informd/internal/search"
)

// lastApplied is the annotation that kubectl keeps a copy of the object in.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Rules say what of a Kubernetes object goes into its events: what of it is kept, what
// is then cut out, and which of the values that stay are replaced by a hash.
type Rules struct {
	// Keep leads to what stays; none means everything. Identity stays in any case.
	Keep, Omit, Redact []Path
	// Patterns find what is replaced inside of strings, wherever they stand.
	Patterns []*regexp.Regexp
}

// Identity are the places by which consumers know an object, and which every event has:
// they are neither cut out nor replaced.
func Identity() [][]string {
	return [][]string{
		{"apiVersion"},
		{"kind"},
		{"metadata", "name"},
		{"metadata", "namespace"},
		{"metadata", "uid"},
		{"metadata", "resourceVersion"},
	}
}

// dropped are the places that no event has, whatever is kept.
func dropped() [][]string {
	return [][]string{{"metadata", "managedFields"}, {"metadata", "annotations", lastApplied}}
}

// ParseRules reads the rules of a resource. With metadataOnly its objects have nothing
// but metadata. It returns nil for no rules. The errors, joined, name the item and say
// what is wrong with it.
func ParseRules(keep, omit, redact []string, metadataOnly bool) (*Rules, error) {
	var r Rules
	var errs []error
	read := func(key string, items []string) {
		for _, item := range items {
			if err := r.Add(key, item, metadataOnly); err != nil {
				errs = append(errs, fmt.Errorf("%s %q: %w", key, item, err))
			}
		}
	}
	read("keep", keep)
	read("omit", omit)
	read("redact", redact)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if len(keep)+len(omit)+len(redact) == 0 {
		return nil, nil //nolint:nilnil // no rules are no error
	}
	return &r, nil
}

// Add adds an item to the rules of a key of the config: "keep", "omit" or "redact"; any
// other key counts as "keep". An item is a path, or with "redact" a regular expression (RE2)
// between slashes for parts of strings. With metadataOnly, a path outside of the metadata is
// an error.
func (r *Rules) Add(key, item string, metadataOnly bool) error {
	if key == "redact" && strings.HasPrefix(item, "/") {
		return r.addPattern(item)
	}
	p, err := parseFor(item, metadataOnly)
	if err != nil {
		return err
	}
	list := &r.Keep
	switch key {
	case "omit":
		list, err = &r.Omit, p.spares("cut out")
	case "redact":
		list, err = &r.Redact, p.spares("replaced")
	}
	if err == nil && key != "omit" {
		err = p.stays()
	}
	if err == nil {
		*list = append(*list, p)
	}
	return err
}

func (r *Rules) addPattern(item string) error {
	expression, ok := strings.CutSuffix(item[1:], "/")
	if !ok {
		return errors.New("a regular expression is between slashes, as in /token-[a-z]+/, and keys are joined by dots, as in spec.token")
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return fmt.Errorf("not a regular expression (RE2): %w", err)
	}
	if _, err := search.Size(expression); err != nil {
		return fmt.Errorf("the regular expression is too large: %w", err)
	}
	if re.MatchString("") {
		return errors.New("the regular expression matches the empty text, and so every text: make it match at least one character")
	}
	r.Patterns = append(r.Patterns, re)
	return nil
}

// Redacts reports whether any value is replaced.
func (r *Rules) Redacts() bool { return r != nil && len(r.Redact)+len(r.Patterns) > 0 }

// RedactsAround reports whether a path leads to the place that keys lead to, into what is
// there, or to something that it is in.
func (r *Rules) RedactsAround(keys ...string) bool {
	return r != nil && slices.ContainsFunc(r.Redact, func(p Path) bool { return p.along(keys) })
}

// Cuts reports whether nothing stays at the place that keys lead to: it is cut out, by
// the path that is returned, or not kept, and then there is none.
func (r *Rules) Cuts(keys ...string) (by *Path, cut bool) {
	for _, place := range dropped() {
		if p := pathTo(place); p.covers(keys) {
			return &p, true
		}
	}
	for _, p := range r.Omit {
		if p.covers(keys) {
			return &p, true
		}
	}
	return nil, len(r.Keep) > 0 && !slices.ContainsFunc(r.Keep, func(p Path) bool { return p.along(keys) }) &&
		!slices.ContainsFunc(Identity(), func(place []string) bool { return pathTo(place).along(keys) })
}

// covers reports whether the path leads to the place that keys lead to, or to what that
// is in.
func (p Path) covers(keys []string) bool { return len(p.steps) <= len(keys) && p.along(keys) }

// along reports whether the path and the keys lead the same way, as far as both go.
func (p Path) along(keys []string) bool {
	for i := range min(len(p.steps), len(keys)) {
		if !p.steps[i].leads(keys[i]) {
			return false
		}
	}
	return true
}

// Projection returns what keeps and cuts out by the rules, nil if everything stays.
func (r *Rules) Projection() *Projection {
	if len(r.Keep)+len(r.Omit) == 0 {
		return nil
	}
	var keep, omit *Set
	if len(r.Keep) > 0 {
		paths := append([]Path(nil), r.Keep...)
		for _, place := range Identity() {
			paths = append(paths, pathTo(place))
		}
		keep = NewSet(paths...)
	}
	if len(r.Omit) > 0 {
		omit = NewSet(r.Omit...)
	}
	return NewProjection(keep, omit)
}

// ProjectionAgain is Projection for objects whose values may have been replaced by these
// rules already: what was replaced as a whole stays, if something inside of it is kept.
func (r *Rules) ProjectionAgain() *Projection {
	again := *r
	for _, p := range r.Redact {
		if slices.ContainsFunc(r.Keep, p.mayHold) {
			again.Keep = append(slices.Clip(again.Keep), p)
		}
	}
	return again.Projection()
}

// mayHold reports whether the other path may lead into what this one leads to.
func (p Path) mayHold(other Path) bool {
	element := func(s step) bool { return s.kind == element }
	outer, inner := slices.DeleteFunc(slices.Clone(p.steps), element), slices.DeleteFunc(slices.Clone(other.steps), element)
	if len(outer) > len(inner) {
		return false
	}
	for i, s := range outer {
		if s.kind == named && inner[i].kind == named && s.key != inner[i].key {
			return false
		}
	}
	return true
}

// parseFor parses a path into an object.
func parseFor(item string, metadataOnly bool) (Path, error) {
	p, err := Parse(item)
	if err != nil {
		return Path{}, err
	}
	if place := p.meets(Identity(), below); place != nil {
		return Path{}, fmt.Errorf("%s is text and has no paths below it", place)
	}
	if metadataOnly && !slices.ContainsFunc([]string{"metadata", "apiVersion", "kind"}, p.steps[0].leads) {
		return Path{}, errors.New("the path matches nothing: with mode: metadata an object has only its metadata; begin the path with metadata, or set mode: full")
	}
	return p, nil
}

// spares returns an error if the path leads to a part of the identity, or around it.
func (p Path) spares(fate string) error {
	place := p.meets(Identity(), atOrAbove)
	switch {
	case place == nil:
		return nil
	case p.literal() && len(p.steps) < len(place.steps):
		return fmt.Errorf("the path includes %s, which identifies the object and is never %s: name a path below it, as in metadata.labels", place, fate)
	case p.literal():
		return fmt.Errorf("the path identifies the object and is never %s", fate)
	default:
		return fmt.Errorf("the path also matches %s, which identifies the object and is never %s: name the keys", place, fate)
	}
}

// stays returns an error if the path leads to something that no event has.
func (p Path) stays() error {
	if place := p.meets(dropped(), atOrBelow); place != nil {
		return fmt.Errorf("informd removes %s from every object: remove this path", place)
	}
	return nil
}

// literal reports whether the path leads to one place.
func (p Path) literal() bool {
	return !slices.ContainsFunc(p.steps, func(s step) bool { return s.kind != named })
}

// relation is where a path leads in relation to a place.
type relation int

const (
	atOrAbove relation = iota
	atOrBelow
	below
)

// meets returns the first of the places that the path is related to, nil if none is.
func (p Path) meets(places [][]string, how relation) *Path {
	for _, place := range places {
		deeper := len(p.steps) - len(place)
		same := p.along(place) && (how == atOrAbove && deeper <= 0 || how == atOrBelow && deeper >= 0 || how == below && deeper > 0)
		// A star beside the place leads to much else.
		if same && (how == atOrAbove || (Path{p.steps[:len(place)]}).literal()) {
			met := pathTo(place)
			return &met
		}
	}
	return nil
}

// leads reports whether the step goes into the member of that key.
func (s step) leads(key string) bool {
	return s.kind == anyKey || s.kind == named && s.key == key
}

func pathTo(place []string) Path {
	steps := make([]step, len(place))
	for i, k := range place {
		steps[i] = step{key: k}
	}
	return Path{steps}
}
