package when

import (
	"bytes"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/informd/informd/internal/jsonend"
)

// object is a JSON object whose members are found in their order, no further than
// to the one that is asked for, and decoded when they are read. Of a key that is
// there twice, which no API server writes, the first one counts.
type object struct {
	text  []byte // with its brackets
	depth int

	next    int // where to look for the next member, 0 once there is none
	members []member
	index   map[string]int // into members, once there are many
}

type member struct {
	key   []byte // without quotes and escapes
	text  []byte
	value ref.Val // nil until it is read
}

var _ traits.Mapper = (*object)(nil)

// few is room for the members before the one that is asked for in most objects.
const few = 4

// many is the number of members from which on an index is faster than a look at
// each of them.
const many = 16

// find returns the member of that key, nil if there is none.
func (o *object) find(key string) *member {
	if i := o.known([]byte(key)); i >= 0 {
		return &o.members[i]
	}
	for o.advance() {
		if last := &o.members[len(o.members)-1]; string(last.key) == key {
			return last
		}
	}
	return nil
}

// known returns the place of a member that was found already, or -1.
func (o *object) known(key []byte) int {
	if o.index != nil {
		if i, ok := o.index[string(key)]; ok {
			return i
		}
		return -1
	}
	for i := range o.members {
		if bytes.Equal(o.members[i].key, key) {
			return i
		}
	}
	return -1
}

// advance finds the next member, and reports whether there is one.
func (o *object) advance() bool {
	for o.next > 0 {
		m, ok := o.scan()
		if !ok {
			return false
		}
		if o.known(m.key) >= 0 {
			continue
		}
		if o.members == nil {
			o.members = make([]member, 0, few)
		}
		o.members = append(o.members, m)
		switch n := len(o.members); {
		case o.index != nil:
			o.index[string(m.key)] = n - 1
		case n > many:
			o.index = make(map[string]int, 4*many)
			for i := range o.members {
				o.index[string(o.members[i].key)] = i
			}
		}
		return true
	}
	return false
}

// scan reads the member at next, if there is one, and moves on to the one behind it.
func (o *object) scan() (m member, ok bool) {
	if o.text[o.next] == '}' { // it has no members
		o.next = 0
		return m, false
	}
	key, value := jsonend.Key(o.text, o.next)
	end := jsonend.Value(o.text, value)
	m.key, m.text = key, o.text[value:end]
	if o.next = 0; o.text[end] == ',' {
		o.next = end + 1
	}
	return m, true
}

// read returns a member's value.
func (o *object) read(m *member) ref.Val {
	if m.value != nil {
		return m.value
	}
	value := decode(m.text, o.depth+1)
	if !types.IsError(value) {
		m.value = value
	}
	return value
}

// all finds every member.
func (o *object) all() []member {
	for more := true; more; {
		more = o.advance()
	}
	return o.members
}

func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	if m := o.find(string(name)); m != nil {
		return o.read(m), true
	}
	return nil, false
}

func (o *object) Get(key ref.Val) ref.Val {
	value, found := o.Find(key)
	if !found {
		return types.ValOrErr(value, "no such key: %v", key)
	}
	return value
}

func (o *object) Contains(key ref.Val) ref.Val {
	value, found := o.Find(key)
	if value != nil && types.IsError(value) {
		return value
	}
	return types.Bool(found)
}

func (o *object) Size() ref.Val {
	return types.Int(len(o.all()))
}

func (o *object) IsZeroValue() bool { return o.Size() == types.IntZero }

// Iterator implements [traits.Iterable]: the keys in the order of the text.
func (o *object) Iterator() traits.Iterator {
	members := o.all()
	keys := make([]ref.Val, len(members))
	for i := range members {
		keys[i] = types.String(members[i].key)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

func (o *object) Equal(other ref.Val) ref.Val {
	with, ok := other.(traits.Mapper)
	if !ok {
		return types.False
	}
	members := o.all()
	if types.Int(len(members)) != with.Size() {
		return types.False
	}
	for i := range members {
		value, found := with.Find(types.String(members[i].key))
		if !found || types.Equal(o.read(&members[i]), value) != types.True {
			return types.False
		}
	}
	return types.True
}

func (o *object) Type() ref.Type { return types.MapType }

func (o *object) Value() any { return o.decoded().Value() }

func (o *object) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", types.MapType, to)
}

func (o *object) ConvertToNative(to reflect.Type) (any, error) {
	return o.decoded().ConvertToNative(to)
}

// decoded is the same as a map of CEL's own.
func (o *object) decoded() traits.Mapper {
	members := o.all()
	values := make(map[ref.Val]ref.Val, len(members))
	for i := range members {
		values[types.String(members[i].key)] = o.read(&members[i])
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, values)
}
