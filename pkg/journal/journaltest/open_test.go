package journaltest_test

import (
	"testing"

	"github.com/informd/informd/pkg/journal"
	"github.com/informd/informd/pkg/journal/journaltest"
)

// TestOpenSpoils: Data of an event lasts until its commit.
func TestOpenSpoils(t *testing.T) {
	j := journaltest.Open(t)
	c, err := j.Open("sink", journal.FromNow)
	if err != nil {
		t.Fatal(err)
	}
	want := journaltest.Events("e", 2)
	if err := j.Append(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	got := journaltest.ReadAll(t, c, 2, 2)
	first, second := got[0].Event.Data, got[1].Event.Data
	if err := c.Commit(t.Context(), got[0].Seq); err != nil {
		t.Fatal(err)
	}
	if string(first) == string(want[0].Data) || string(second) != string(want[1].Data) {
		t.Errorf("after the commit of the first event: %q, %q", first, second)
	}
}
