package event

// Reannounced reports whether the event announces a known state again, as an entry's
// `resync` and `informd resnapshot` ask for. PrevResourceVersion is then its own revision,
// or that of the event before it where change gates have held newer states back. In the
// object's chain it counts as any other event, unless it is for one sink alone: it then
// has the Ordinal of the event that it repeats.
func (e *Event) Reannounced() bool { return e.Op == Snapshot && e.Replay && e.Run != 0 }
