package frame_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

const maxItem = 1 << 20

// listed is what came of reading a list.
type listed struct {
	Items []string
	Meta  frame.ListMeta
	Err   string
}

func readList(r io.Reader, maxItem int) listed {
	var l listed
	meta, err := frame.ReadList(r, maxItem, func(raw []byte) error {
		l.Items = append(l.Items, string(raw))
		return nil
	})
	l.Meta = meta
	if err != nil {
		l.Err = err.Error()
	}
	return l
}

func TestReadList(t *testing.T) {
	full := frame.ListMeta{ResourceVersion: 12, Continue: "abc", RemainingItems: 3}
	const meta = `"metadata":{"resourceVersion":"12","continue":"abc","remainingItemCount":3}`
	for name, test := range map[string]struct {
		body string
		want listed
	}{
		"Typed":          {`{"kind":"PodList","apiVersion":"v1",` + meta + `,"items":[{"a":1},{"b":"]}\"{["}]}` + "\n", listed{Items: []string{`{"a":1}`, `{"b":"]}\"{["}`}, Meta: full}},
		"KeySorted":      {`{"apiVersion":"v1","items":[{"a":[[],{}]}],"kind":"WidgetList",` + meta + `}`, listed{Items: []string{`{"a":[[],{}]}`}, Meta: full}},
		"Empty":          {`{` + meta + `,"items":[]}`, listed{Meta: full}},
		"NullItems":      {`{"items":null,` + meta + `}`, listed{Meta: full}},
		"Pretty":         {"{\n \"items\" : [\n {\"a\" :\n1} ,\r\n\t{}\n ] , \"metadata\" : { } }", listed{Items: []string{"{\"a\" :\n1}", "{}"}}},
		"UnknownMembers": {`{"x":-1.5e3,"y":[{"items":[{}]}],"z":"\"items\":[","t":true,"n":null,"items":[{}]}`, listed{Items: []string{"{}"}}},
		"EscapedKey":     {`{"it\u0065ms":[{}]}`, listed{Items: []string{"{}"}}},
		"OmittedItems":   {`{"kind":"PodList",` + meta + `}`, listed{Meta: full}},
		"OmittedAsWell":  {`{` + meta + `,"kind":"List"}`, listed{Meta: full}},
		"NoRevision":     {`{"kind":"PodList","metadata":{"resourceVersion":"0"},"items":[{}]}`, listed{Items: []string{"{}"}}},
		"AnObject":       {`{"kind":"Pod",` + meta + `}`, listed{Err: "read list: the response has no items and is no list"}},
		"NoKind":         {`{` + meta + `}`, listed{Err: "read list: the response has no items and is no list"}},
		"ListUnrevised":  {`{"kind":"PodList","metadata":{}}`, listed{Err: "read list: the response has no items and is no list"}},
		"OfResources":    {`{"kind":"APIResourceList","resources":[]}`, listed{Err: "read list: the response has no items and is no list"}},
		"NotAList":       {`{"kind":"Status","status":"Success"}`, listed{Err: "read list: the response has no items and is no list"}},
		"NoObject":       {`[]`, listed{Err: `read list: the response starts with byte '[', which is not JSON`}},
		"HTML":           {`<html>`, listed{Err: `read list: the response starts with byte '<', which is not JSON`}},
		"Nothing":        {``, listed{Err: "unexpected EOF"}},
		"CutInItem":      {`{"items":[{"a":1},{"b":`, listed{Items: []string{`{"a":1}`}, Err: "unexpected EOF"}},
		"CutBetween":     {`{"items":[{"a":1},`, listed{Items: []string{`{"a":1}`}, Err: "unexpected EOF"}},
		"CutBeforeMeta":  {`{"items":[{"a":1}],`, listed{Items: []string{`{"a":1}`}, Err: "unexpected EOF"}},
		"CutAtEnd":       {`{"items":[{"a":1}]`, listed{Items: []string{`{"a":1}`}, Err: "unexpected EOF"}},
		"ScalarItem":     {`{"items":[1]}`, listed{Err: "read list: an item is not an object at byte 10, after 0 items"}},
		"ItemsObject":    {`{"items":{}}`, listed{Err: "read list: items is not an array at byte 9, after 0 items"}},
		"NoComma":        {`{"items":[{}{}]}`, listed{Items: []string{"{}"}, Err: "read list: a comma or ']' is expected at byte 12, after 1 items"}},
		"TrailingComma":  {`{"items":[{},]}`, listed{Items: []string{"{}"}, Err: "read list: an item is not an object at byte 13, after 1 items"}},
		"ItemsTwice":     {`{"items":[],"items":[]}`, listed{Err: "read list: the list has items twice at byte 20, after 0 items"}},
		"MetaTwice":      {`{"metadata":{},"metadata":{},"items":[]}`, listed{Err: "read list: the list has metadata twice at byte 26, after 0 items"}},
		"BadRevision":    {`{"metadata":{"resourceVersion":"x"},"items":[]}`, listed{Err: "read list: the resourceVersion is not a decimal number, and informd cannot watch without one at byte 12, after 0 items"}},
		"BadValue":       {`{"x":[1,}],"items":[]}`, listed{Err: "read list: a value is expected at byte 5, after 0 items"}},
		"BadScalar":      {`{"x":nul,"items":[]}`, listed{Err: "read list: a value is expected at byte 5, after 0 items"}},
		"Gzip":           {"\x1f\x8b\x08\x00", listed{Err: "read list: the response is compressed (gzip), and informd did not request that: disable compression of responses in the proxy before the API server"}},
	} {
		t.Run(name, func(t *testing.T) {
			for reader, r := range map[string]io.Reader{
				"whole": strings.NewReader(test.body),
				"bytes": iotest.OneByteReader(strings.NewReader(test.body)),
				"eof":   iotest.DataErrReader(strings.NewReader(test.body)),
			} {
				got := readList(r, maxItem)
				if test.want.Err != "" {
					got.Meta = test.want.Meta // says nothing after an error
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", reader, diff)
				}
			}
		})
	}
}

// TestReadListStops: item's error ends the reading and comes back as it is, also if
// it looks like an end of the stream.
func TestReadListStops(t *testing.T) {
	mine := fmt.Errorf("mine: %w", io.EOF)
	calls := 0
	_, err := frame.ReadList(strings.NewReader(`{"items":[{},{},{}]}`), maxItem, func([]byte) error {
		calls++
		return mine
	})
	if err != mine || calls != 1 { //nolint:errorlint // the very same error
		t.Errorf("error %v after %d calls", err, calls)
	}
	broken := errors.New("connection reset")
	_, err = frame.ReadList(io.MultiReader(strings.NewReader(`{"items":[{}`), iotest.ErrReader(broken)), maxItem, func([]byte) error { return nil })
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want the reader's", err)
	}
}

// TestReadListLargeItem: an item beyond the bound ends the list.
func TestReadListLargeItem(t *testing.T) {
	body := fmt.Sprintf(`{"items":[%s,%s,%s],"metadata":{"resourceVersion":"5"}}`, pod("a", 1), configMap(3<<20), pod("b", 2))
	items := 0
	_, err := frame.ReadList(iotest.HalfReader(strings.NewReader(body)), 1<<20, func([]byte) error { items++; return nil })
	if err == nil || items != 1 || !strings.Contains(err.Error(), "a value is larger than 1 MiB") {
		t.Errorf("%d items: %v", items, err)
	}
}

// TestReadListMemory: the list's length does not show in memory.
func TestReadListMemory(t *testing.T) {
	items := 0
	item := append(pod("a", 1), ',')
	const wanted = 5_000 // 40 MB
	r := io.MultiReader(strings.NewReader(`{"items":[`), &repeat{item: item, left: wanted}, strings.NewReader(`{}]}`))
	before := allocated()
	if _, err := frame.ReadList(r, maxItem, func([]byte) error { items++; return nil }); err != nil || items != wanted+1 {
		t.Fatalf("%d items: %v", items, err)
	}
	if got := allocated() - before; got > 1<<20 {
		t.Errorf("%d bytes allocated for a list of %d items", got, items)
	}
}

// repeat is a reader of the same item again and again.
type repeat struct {
	item []byte
	left int
	rest []byte
}

func (r *repeat) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.left--
		r.rest = r.item
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// FuzzReadList holds that how a list arrives does not show in what is read, and
// that every item of a valid list comes out.
func FuzzReadList(f *testing.F) {
	f.Add([]byte(`{"kind":"PodList","metadata":{"resourceVersion":"12"},"items":[{"a":"\\\"]"},{}]}`), uint64(1))
	f.Add([]byte(`{"apiVersion":"v1","items":[{"a":[[],{}]},{"b":1} ],"kind":"L","metadata":{"continue":"x"}}`), uint64(2))
	f.Add([]byte("{ \"items\" : null , \"x\" : -1e5 , \"y\":tru"), uint64(3))
	f.Add(fmt.Appendf(nil, `{"items":[%s,%s]}`, pod("a", 1), configMap(9<<10)), uint64(4))
	f.Add([]byte(`{"items":[],"metadata":{"remainingItemCount":1.5}}`), uint64(5))
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		want := readList(bytes.NewReader(body), maxItem)
		chunks := rand.New(rand.NewPCG(seed, 0))
		for name, r := range map[string]io.Reader{
			"bytes":    iotest.OneByteReader(bytes.NewReader(body)),
			"chunks":   &pieces{bytes.NewReader(body), chunks, 64},
			"with err": iotest.DataErrReader(bytes.NewReader(body)),
		} {
			if diff := cmp.Diff(want, readList(r, maxItem)); diff != "" {
				t.Errorf("%s (-whole +%s):\n%s", name, name, diff)
			}
		}
		compareList(t, body, want)
	})
}

// compareList compares with encoding/json: a list that was read without an error
// has the items that it sees, and an error means that something is wrong.
func compareList(t *testing.T, body []byte, got listed) {
	t.Helper()
	want, ok := list(body)
	if got.Err != "" || !ok {
		return // malformed items are for the Normaliser to find
	}
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}
