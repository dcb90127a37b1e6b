package dynwatch

import "github.com/informd/informd/pkg/dynwatch/internal/laststate"

// lastStates are the objects in the last events of entries, compressed, for a target
// whose log does not keep them. Its zero value has none.
type lastStates struct {
	store laststate.Store
	of    map[*entry]*laststate.State
}

// get returns the object of an entry, nil if there is none.
func (l *lastStates) get(e *entry) []byte {
	if state := l.of[e]; state != nil {
		return l.store.Append(nil, state)
	}
	return nil
}

func (l *lastStates) put(e *entry, object []byte) {
	if l.of == nil {
		l.of = make(map[*entry]*laststate.State)
	}
	l.of[e] = l.store.Put(l.of[e], object)
}

func (l *lastStates) remove(e *entry) {
	state, ok := l.of[e]
	if !ok {
		return
	}
	l.store.Delete(state)
	if delete(l.of, e); len(l.of) == 0 {
		l.clear() // scratch and all
	}
}

func (l *lastStates) clear() { *l = lastStates{} }

func (l *lastStates) bytes() uint64 { return l.store.Bytes() }
