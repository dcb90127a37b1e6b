package event

// Reannounced reports whether the event belongs to a re-snapshot (`resnapshotEvery` or
// `informd resnapshot`): it announces a known state again. PrevResourceVersion is then its
// own revision, or that of the event before it if change filters skipped newer states. The
// event counts in the object's chain as any other. If it is for one sink alone, it has the
// Ordinal of the event that it repeats.
func (e *Event) Reannounced() bool { return e.Op == Snapshot && e.Replay && e.Run != 0 }
