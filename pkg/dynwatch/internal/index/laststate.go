package index

import "github.com/informd/informd/pkg/dynwatch/internal/laststate"

// LastState returns the object of an entry's last event, nil if it was not set.
func (x *Index) LastState(e *Entry) []byte {
	if state := x.states[e]; state != nil {
		return x.store.Append(nil, state)
	}
	return nil
}

// SetLastState keeps the object of an entry's last event, compressed. It keeps nothing of
// the slice.
func (x *Index) SetLastState(e *Entry, object []byte) {
	if x.states == nil {
		x.states = make(map[*Entry]*laststate.State)
	}
	x.states[e] = x.store.Put(x.states[e], object)
}

func (x *Index) removeLastState(e *Entry) {
	state, ok := x.states[e]
	if !ok {
		return
	}
	x.store.Delete(state)
	if delete(x.states, e); len(x.states) == 0 {
		x.ClearLastStates() // the store's scratch memory, too
	}
}

// ClearLastStates frees all last states.
func (x *Index) ClearLastStates() { x.states, x.store = nil, laststate.Store{} }

// LastStateBytes returns the memory that the last states take.
func (x *Index) LastStateBytes() uint64 { return x.store.Bytes() }
