package informer

import "testing"

// TestPositionDuringAList: objects of a list can have newer revisions before older ones, so only the
// end of the list moves the position. A rollback moves it back.
func TestPositionDuringAList(t *testing.T) {
	var p position
	at := func(want uint64, expected bool) {
		t.Helper()
		if reached, _ := p.reached(want); reached != expected {
			t.Errorf("reached(%d) is %t", want, reached)
		}
	}
	at(0, false)
	p.list()
	p.watched(10)
	at(5, false)
	_, changed := p.reached(12)
	p.listed(12)
	<-changed
	at(12, true)
	p.watched(15)
	at(15, true)
	at(16, false)
	p.list()
	p.watched(14)
	at(15, true)
	p.listed(9)
	at(10, false)
	at(9, true)
}
