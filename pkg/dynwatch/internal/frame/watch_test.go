package frame_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/internal/form"
	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// line is a frame as the API server writes it.
func line(kind string, object []byte) string {
	return fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", kind, object)
}

// small is a small object.
func small(name string, rv int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"shop","uid":"u-%s","resourceVersion":"%d"},"spec":{"x":[1,{}]}}`, name, name, rv)
}

func TestWatch(t *testing.T) {
	const bookmark = `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9","creationTimestamp":null},"spec":{"containers":null},"status":{}}`
	const initialEnd = `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"8","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}}}`
	const gone = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (5)","reason":"Expired","code":410}`
	a, b, c := line("ADDED", small("a", 1)), line("MODIFIED", small("b", 2)), line("DELETED", small("c", 3))
	good := []string{"ADDED shop/a 1", "MODIFIED shop/b 2", "DELETED shop/c 3"}
	half := b[:strings.Index(b, "shop")+2]
	wrong := func(reason string) string {
		return "ERROR read watch frame: " + reason
	}
	for name, test := range map[string]struct {
		pieces []string
		broken bool
		want   []string
	}{
		"Frames":        {pieces: []string{a, b, c}, want: good},
		"OnePiece":      {pieces: []string{a + b + c}, want: good},
		"OddPieces":     {pieces: []string{a[:10], a[10:] + b[:40], b[40:60], b[60:] + c}, want: good},
		"BlankLines":    {pieces: []string{"\n\r\n" + a, "\n \n", b + "\r\n" + c}, want: good},
		"NoLastNewline": {pieces: []string{a + b + strings.TrimSpace(c)}, want: good},
		"OneLine":       {pieces: []string{strings.TrimSpace(a) + strings.TrimSpace(b) + " " + c}, want: good},
		"Bookmarks":     {pieces: []string{line("BOOKMARK", []byte(initialEnd)), line("BOOKMARK", []byte(bookmark))}, want: []string{"BOOKMARK 8", "BOOKMARK 9"}},
		"Error":         {pieces: []string{a, line("ERROR", []byte(gone))}, want: []string{good[0], "ERROR 410 Expired too old resource version: 1 (5)"}},
		"ErrorNoStatus": {pieces: []string{line("ERROR", []byte(`"boom"`))}, want: []string{"ERROR 500 InternalError the server ended the watch with an error that is not a Status object"}},
		"ObjectFirst":   {pieces: []string{`{"object":` + string(small("a", 1)) + `,"x":[{}],"t\u0079pe":"ADDED"}` + "\n", b, c}, want: good},
		"ExtraMember":   {pieces: []string{strings.TrimSuffix(a, "}\n") + `,"x":1}` + "\n", b, c}, want: good},
		"BrokenLines":   {pieces: []string{strings.Replace(a, "shop", "sh\nop", 1), b}, want: []string{"ADDED malformed /a  0: invalid JSON: a string has no end at byte 39", wrong(`the response starts with byte 'o', which is not JSON`)}},

		"EndInFrame":    {pieces: []string{a, half}, want: good[:1]},
		"BrokenInFrame": {pieces: []string{a, half}, broken: true, want: good[:1]},

		// A line that was cut short, with good frames behind it.
		"CutLine":        {pieces: []string{a, half + "\n", c, c, c, c}, want: []string{good[0], "MODIFIED malformed /b  0: invalid JSON: a string has no end at byte 39", good[2], good[2], good[2], good[2]}},
		"CutLineOutside": {pieces: []string{a, b[:len(b)-6] + "\n", c, c}, want: []string{good[0], "MODIFIED malformed shop/b u-b 2: invalid JSON: the text ends too early at byte 94", good[2], good[2]}},

		"MalformedBetween": {
			pieces: []string{a, line("MODIFIED", []byte(`{"metadata":{"name":"x","namespace":"shop","uid":"u","resourceVersion":"4"},"spec":{"a":01}}`)), line("DELETED", []byte(`{"metadata":{"name":"y","namespace":"shop","resourceVersion":"5"}}`)), c},
			want:   []string{good[0], "MODIFIED malformed shop/x u 4: invalid JSON: a number is malformed at byte 88", "DELETED malformed shop/y  5: the object has no uid", good[2]},
		},
		"BookmarkWithoutRevision": {pieces: []string{line("BOOKMARK", []byte(`{"metadata":{}}`)), c}, want: []string{"BOOKMARK 0", good[2]}},

		"TwoLines":    {pieces: []string{a, "{\n" + strings.TrimPrefix(b, "{"), c}, want: []string{good[0], wrong("a line is no frame: unexpected EOF")}},
		"Garbage":     {pieces: []string{a, "upstream connect error\n", b}, want: []string{good[0], wrong(`the response starts with byte 'u', which is not JSON`)}},
		"Gzip":        {pieces: []string{"\x1f\x8b\x08\x00\x00"}, want: []string{wrong("the response is compressed (gzip), and informd did not request that: disable compression of responses in the proxy before the API server")}},
		"UnknownType": {pieces: []string{line("PATCHED", small("a", 1))}, want: []string{wrong(`the type is "PATCHED"`)}},
		"NoFrame":     {pieces: []string{"{}\n"}, want: []string{wrong("the frame has no type or no object")}},
		"Status":      {pieces: []string{gone + "\n"}, want: []string{wrong("the frame has no type or no object")}},
		"Empty":       {pieces: []string{""}, want: nil},
	} {
		for protocol, start := range protocols() {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				w, err := start(t, say(test.broken, test.pieces...)).watch(t, frame.NewNormaliser("v1", "Pod", frame.Options{}))
				must(t, err)
				got := summaries(collect(t, w))
				if n := len(got); test.broken && n > 0 && strings.HasPrefix(got[n-1], "ERROR stream error") {
					got = got[:n-1] // HTTP/2 says how it ended
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// body is an HTTP transport whose every response is a watch that says r.
type body struct{ r io.Reader }

func (b body) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(b.r)}, nil
}

// watchBytes begins a watch whose response is what r reads.
func watchBytes(t *testing.T, r io.Reader, n *frame.Normaliser) watch.Interface {
	t.Helper()
	c, err := frame.NewRESTClient(&rest.Config{Host: "http://localhost"}, &http.Client{Transport: body{r}}, n, false)
	must(t, err)
	w, err := dynamic.New(c).Resource(pods).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	return w
}

// TestWatchCutAnywhere: wherever the response ends, and however it arrives, half a
// frame is never delivered and a whole one always is.
func TestWatchCutAnywhere(t *testing.T) {
	n := frame.NewNormaliser("v1", "Pod", frame.Options{})
	a, b := line("ADDED", small("a", 1)), strings.TrimSpace(line("MODIFIED", small("é\\\"ü", 2)))
	for form, all := range map[string][]string{"usual": {a, b}, "any": {" " + a, strings.Replace(b, `"object"`, ` "object"`, 1)}} {
		for i := range len(all[1]) + 1 {
			text := all[0] + all[1][:i]
			for reader, r := range map[string]io.Reader{
				"whole": strings.NewReader(text),
				"bytes": iotest.OneByteReader(strings.NewReader(text)),
				"eof":   iotest.DataErrReader(strings.NewReader(text)),
			} {
				want := 1
				if i == len(all[1]) {
					want = 2
				}
				if got := summaries(collect(t, watchBytes(t, r, n))); len(got) != want || got[0] != "ADDED shop/a 1" {
					t.Fatalf("%s cut at %d of %d, read as %s: %q", form, i, len(all[1]), reader, got)
				}
			}
		}
	}
}

// TestWatchObjects: what comes through a watch is what the reference makes of it,
// for the seeds of the fuzz test in a row on one watch.
func TestWatchObjects(t *testing.T) {
	all := objects()
	all["large"] = configMap(3 << 19)
	var order, pieces []string
	for name, raw := range all {
		if len(raw) > 0 && !bytes.ContainsAny(raw, "\n") && name != "trailing" {
			order = append(order, name)
			pieces = append(pieces, line("ADDED", raw))
		}
	}
	for protocol, start := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			w, err := start(t, say(false, strings.Join(pieces, ""))).watch(t, frame.NewNormaliser("v1", "Kind", frame.Options{}))
			must(t, err)
			events := collect(t, w)
			if len(events) != len(order) {
				t.Fatalf("%d events, want %d", len(events), len(order))
			}
			for i, name := range order {
				e := events[i]
				got, ok := e.Object.(*frame.Watched)
				if !ok {
					t.Fatalf("%s: %s", name, summary(e))
				}
				var err error
				if got.Err != nil {
					err = got.Err
				}
				compare(t, all[name], false, got.Object, err)
			}
		})
	}
}

// TestWatchTogether: frames that have arrived come in one event of the watch, in their
// order, and what is not usual about one of them takes none of the others along.
func TestWatchTogether(t *testing.T) {
	usual := line("ADDED", small("a", 1)) + line("MODIFIED", small("a", 2)) + line("DELETED", small("a", 3))
	text := usual + line("BOOKMARK", []byte(`{"metadata":{"resourceVersion":"4"}}`)) +
		line("ADDED", []byte(`{"metadata":{}}`)) + " " + strings.Replace(line("ADDED", small("b", 5)), ",", " , ", 1) + usual +
		line("ERROR", []byte(`{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}`))
	var got [][]string
	for e := range watchBytes(t, strings.NewReader(text), frame.NewNormaliser("v1", "Pod", frame.Options{})).ResultChan() {
		got = append(got, summaries(frames(e)))
	}
	three := []string{"ADDED shop/a 1", "MODIFIED shop/a 2", "DELETED shop/a 3"}
	want := [][]string{
		append(slices.Clone(three), "BOOKMARK 4", "ADDED malformed /  0: the object has no name"),
		append([]string{"ADDED shop/b 5"}, three...), // the first read brings 512 bytes
		{"ERROR 410 Expired too old"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestWatchLargeFrame: a frame beyond the bound ends the watch, and what came before it comes out.
func TestWatchLargeFrame(t *testing.T) {
	start, end, _ := strings.Cut(line("MODIFIED", configMap(1)), `""`)
	r := io.MultiReader(strings.NewReader(line("ADDED", small("a", 1))+start+`"`), &repeat{item: bytes.Repeat([]byte("x"), 1<<20), left: 64}, strings.NewReader(`"`+end))
	w := watchBytes(t, r, frame.NewNormaliser("v1", "ConfigMap", frame.Options{}))
	want := []string{"ADDED shop/a 1", "ERROR read watch frame: the frame is larger than 64 MiB"}
	if diff := cmp.Diff(want, summaries(collect(t, w))); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// TestWatchStop: Stop ends a watch that waits for a frame.
func TestWatchStop(t *testing.T) {
	for protocol, start := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			s := start(t, func(w http.ResponseWriter, r *http.Request) {
				say(false, line("ADDED", small("a", 1)), `{"type":"ADD`)(w, r)
				<-r.Context().Done()
			})
			w, err := s.watch(t, frame.NewNormaliser("v1", "Pod", frame.Options{}))
			must(t, err)
			if e := <-w.ResultChan(); e.Type != watch.Added {
				t.Fatal(summary(e))
			}
			w.Stop()
			for e := range w.ResultChan() {
				t.Errorf("after Stop: %s", summary(e))
			}
		})
	}
}

// TestWatchMemory: one large frame does not cost its size for the life of the watch.
func TestWatchMemory(t *testing.T) {
	const watches = 16
	large := line("ADDED", configMap(3<<19))
	s := protocols()["HTTP/1.1"](t, func(w http.ResponseWriter, r *http.Request) {
		say(false, large, line("ADDED", small("a", 1)))(w, r)
		<-r.Context().Done()
	})
	var open []watch.Interface
	before := live()
	for range watches {
		w, err := s.watch(t, frame.NewNormaliser("v1", "ConfigMap", frame.Options{}))
		must(t, err)
		open = append(open, w)
		var all []watch.Event
		for len(all) < 2 {
			all = append(all, frames(<-w.ResultChan())...)
		}
		if e := all[1]; summary(e) != "ADDED shop/a 1" {
			t.Fatal(summary(e))
		}
	}
	const each = 256 << 10 // the test server's side included
	after := live()
	t.Logf("%d KiB stay for each watch", (int64(after)-int64(before))/watches>>10)
	if after > before && after-before > watches*each {
		t.Errorf("%d KiB stay for each watch, want at most %d", (after-before)/watches>>10, each>>10)
	}
	for _, w := range open {
		w.Stop()
	}
}

// allocated is how many bytes were allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// live is how many bytes are in use after a collection.
func live() uint64 {
	runtime.GC()
	runtime.GC() // pools are emptied in two steps
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestStringsPinNothing: who keeps an object's strings keeps neither its data nor
// the buffer that it was read into.
func TestStringsPinNothing(t *testing.T) {
	n := frame.NewNormaliser("v1", "Pod", frame.Options{})
	const objects = 2000
	kept := make([]frame.Object, 0, objects)
	bad := make([]*frame.Malformed, 0, objects)
	before := live()
	for i := range objects {
		raw := pod("web-5d4f8c7b9-x2x4z", uint64(i+1)) // a buffer of its own for each
		o, err := n.Normalise(raw)
		must(t, err)
		o.Data = nil
		kept = append(kept, o)
		_, err = n.Normalise(raw[:len(raw)-1])
		m, ok := err.(*frame.Malformed) //nolint:errorlint // the documented type
		if !ok {
			t.Fatal(err)
		}
		m.Raw, m.Reason = nil, ""
		bad = append(bad, m)
	}
	after := live()
	t.Logf("%d bytes stay for each object and its report", (int64(after)-int64(before))/objects)
	const each = 400 // two blocks of strings and a Malformed
	if after > before && after-before > objects*each {
		t.Errorf("%d bytes stay for each object, want at most %d", (after-before)/objects, each)
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(bad)
}

// TestMemoryIsUsedAgain: what is written into a Memory stays until Reset, lies apart from
// what is written before and after it, and needs no new memory after that.
func TestMemoryIsUsedAgain(t *testing.T) {
	n := frame.NewNormaliser("v1", "Kind", frame.Options{})
	const objects = 50
	var m frame.Memory
	var kept [objects]frame.Object
	fill := func(rv int) {
		m.Reset()
		for i := range objects {
			var err error
			if kept[i], err = n.NormaliseInto(&m, small("web", rv+i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range kept {
			want, err := n.Normalise(small("web", rv+i))
			must(t, err)
			if got := form.CloseDeletedData(kept[i].Data, false); string(got) != string(form.CloseDeletedData(want.Data, false)) {
				t.Errorf("object %d is %s, want %s", i, got, want.Data)
			}
		}
	}
	fill(1000)
	fill(2000) // in what the first round came to, which may be too little
	fill(3000)
	first := &kept[0].Data[0]
	fill(4000)
	if first != &kept[0].Data[0] {
		t.Error("other memory was used, after Reset")
	}
}
