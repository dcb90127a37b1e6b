package listwatch

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// Credentials may allow requests with the selectors of an entry only: a Role with
// resourceNames those with metadata.name, the Node authorizer those with spec.nodeName, and
// other authorizers those with a label. So every request has the selectors, but for the look
// at an object that matches no more or not yet. If that is refused, the selectors decide.

// ErrOutside says that an object is not in the selection, and that the credentials do not allow
// to look whether it exists.
var ErrOutside = errors.New("objects that the selectors leave out are not readable")

// confinement is for how long no look goes beyond the selection after one was refused. Permissions
// can change.
const confinement = time.Minute

func (s *Source) confined() bool { return time.Now().UnixNano() < s.confinedUntil.Load() }

func (s *Source) confine() { s.confinedUntil.Store(time.Now().Add(confinement).UnixNano()) }

// Selects reports whether objects can leave and enter the selection while they exist.
func (r Resource) Selects() bool { return r.LabelSelector != "" || r.FieldSelector != "" }

// Loses reports whether the selection can lose an object that exists. A name does not change,
// nor does the node of a Pod once it has one: what matches by them matches until its deletion.
func (r Resource) Loses() bool {
	byField, err := fields.ParseSelector(r.FieldSelector)
	if r.LabelSelector != "" || err != nil {
		return true
	}
	pods := r.GVR.GroupResource() == schema.GroupResource{Resource: "pods"}
	for _, term := range byField.Requirements() {
		switch {
		case term.Field == metav1.ObjectNameField, term.Field == "metadata.namespace":
		case pods && term.Field == "spec.nodeName" && (term.Operator == selection.NotEquals) == (term.Value == ""):
		default:
			return true
		}
	}
	return false
}

// selected adds the selectors to the options of a request.
func (r Resource) selected(o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector, o.FieldSelector = r.LabelSelector, r.FieldSelector
	return o
}

// SelectedName is the only name that a field selector lets through, if there is one.
func SelectedName(fieldSelector string) (name string, ok bool) {
	selector, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return "", false
	}
	name, _ = selector.RequiresExactMatch(metav1.ObjectNameField)
	return name, name != ""
}
