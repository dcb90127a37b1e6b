package change

// Scanned is how much a comparison scans, of both objects together.
func Scanned(before, after []byte) int {
	d := newDiffer(before, after)
	all := d.left
	_, _ = d.run()
	return all - d.left
}

// Empty reports whether the objects say the same.
func (s *Set) Empty() bool { return len(s.changes) == 0 }
