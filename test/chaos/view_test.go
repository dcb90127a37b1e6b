package chaos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/informd/informd/examples/materialised-view/view"
)

func TestCheckView(t *testing.T) {
	tests := map[string]struct {
		change func(s *script, rows map[string]view.Object)
		want   int
	}{
		"Equal":   {func(*script, map[string]view.Object) {}, 0},
		"Lacking": {func(_ *script, rows map[string]view.Object) { delete(rows, target+"/ns/a") }, 1},
		"Deleted": {func(s *script, _ map[string]view.Object) {
			o := s.truth.Objects["u1"]
			o.Revisions = append(o.Revisions, Revision{RV: 30, Deleted: true})
		}, 1},
		"Older": {func(s *script, _ map[string]view.Object) {
			o := s.truth.Objects["u1"]
			o.Revisions = append(o.Revisions, Revision{RV: 30})
		}, 1},
		"OtherContent": {func(s *script, _ map[string]view.Object) { s.truth.Objects["u1"].Revisions[2].Hash[0]++ }, 1},
		"OtherUID": {func(_ *script, rows map[string]view.Object) {
			row := rows[target+"/ns/a"]
			row.UID = "u9"
			rows[target+"/ns/a"] = row
		}, 1},
		"ChangedTooLate": {func(s *script, _ map[string]view.Object) {
			o := s.truth.Objects["u1"]
			o.Revisions = append(o.Revisions, Revision{RV: 300})
		}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			rows := make(map[string]view.Object)
			for _, o := range s.truth.Objects {
				last := &o.Revisions[len(o.Revisions)-1]
				if last.Deleted {
					continue
				}
				raw := fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}`, o.Name, o.UID, last.RV)
				b, err := decodeObject(raw)
				must(t, err)
				last.Hash = b.hash
				rows[o.key()] = view.Object{UID: o.UID, At: view.Revision{ResourceVersion: last.RV}, JSON: raw}
			}
			test.change(s, rows)
			got := checkView(&s.truth, s.sink.Targets, rows, nil)
			if len(got) != test.want || slices.ContainsFunc(got, func(v Violation) bool { return v.Invariant != "I17" }) {
				t.Errorf("got %+v, want %d violations", got, test.want)
			}
		})
	}
}
