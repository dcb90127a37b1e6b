package when

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/informd/informd/pkg/event"
)

// field is an attribute of an event that expressions can read.
type field struct {
	name string
	of   *cel.Type
	get  func(*event.Event) ref.Val
}

// fields are those of the events of objects; expressions see no control records.
// Revisions are text, as in the events themselves and in the objects' metadata.
func fields() []field {
	text := func(name string, get func(*event.Event) string) field {
		return field{name, cel.StringType, func(e *event.Event) ref.Val { return types.String(get(e)) }}
	}
	revision := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatUint(n, 10)
	}
	return []field{
		text("id", func(e *event.Event) string { return e.ID }),
		text("cluster", func(e *event.Event) string { return e.Cluster }),
		text("group", func(e *event.Event) string { return e.Group }),
		text("version", func(e *event.Event) string { return e.Version }),
		text("resource", func(e *event.Event) string { return e.Resource }),
		text("kind", func(e *event.Event) string { return e.Kind }),
		text("namespace", func(e *event.Event) string { return e.Namespace }),
		text("name", func(e *event.Event) string { return e.Name }),
		text("uid", func(e *event.Event) string { return e.UID }),
		text("resourceVersion", func(e *event.Event) string { return revision(e.ResourceVersion) }),
		text("prevResourceVersion", func(e *event.Event) string { return revision(e.PrevResourceVersion) }),
		{"ordinal", cel.IntType, func(e *event.Event) ref.Val { return types.Int(e.Ordinal) }},
		{"time", cel.TimestampType, func(e *event.Event) ref.Val { return types.Timestamp{Time: e.Time.UTC()} }},
		{"replay", cel.BoolType, func(e *event.Event) ref.Val { return types.Bool(e.Replay) }},
	}
}

// Fields are the names of what the variable event has.
func Fields() []string {
	var names []string
	for _, f := range fields() {
		names = append(names, f.name)
	}
	return names
}

func eventType() *cel.Type { return cel.ObjectType("informd.Event") }

// provider adds the type of the variable event to CEL's own.
type provider struct {
	*types.Registry
	of     *cel.Type
	fields map[string]*types.FieldType
}

func newProvider() (*provider, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	p := &provider{Registry: registry, of: eventType(), fields: map[string]*types.FieldType{}}
	for _, f := range fields() {
		p.fields[f.name] = &types.FieldType{
			Type:  f.of,
			IsSet: func(any) bool { return true },
			GetFrom: func(of any) (any, error) {
				e, ok := of.(*event.Event)
				if !ok {
					return nil, fmt.Errorf("no event: %T", of)
				}
				return f.get(e), nil
			},
		}
	}
	return p, nil
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if name == p.of.TypeName() {
		return types.NewTypeTypeWithParam(p.of), true
	}
	return p.Registry.FindStructType(name)
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if name == p.of.TypeName() {
		return Fields(), true
	}
	return p.Registry.FindStructFieldNames(name)
}

func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name == p.of.TypeName() {
		f, ok := p.fields[field]
		return f, ok
	}
	return p.Registry.FindStructFieldType(name, field)
}

// attributes is the value of the variable event.
type attributes struct{ *event.Event }

var _ ref.Val = attributes{}

func (attributes) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("an event has no other form")
}

func (a attributes) ConvertToType(to ref.Type) ref.Val {
	if to.TypeName() == eventType().TypeName() {
		return a
	}
	return types.NewErr("type conversion error from '%s' to '%s'", eventType(), to)
}

func (a attributes) Equal(other ref.Val) ref.Val {
	b, ok := other.(attributes)
	return types.Bool(ok && a.Event == b.Event)
}

func (attributes) Type() ref.Type { return eventType() }

func (a attributes) Value() any { return a.Event }
