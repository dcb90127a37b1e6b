package objects

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// writer writes random JSON with what decoders decode differently: forms of the same text, keys that
// come twice, invalid UTF-8, numbers at limits.
type writer struct {
	*rand.Rand
	out []byte
}

func (w *writer) one(of ...string) { w.out = append(w.out, of[w.IntN(len(of))]...) }

func (w *writer) text() {
	w.out = append(w.out, '"')
	for range w.IntN(4) {
		w.one("a", `\u0061`, "b", "True", `\"`, `\\`, `\/`, "/", `\n`, `\b`, `\u0000`, `\u001f`, "\x7f", "é", `\u00e9`, `\u00E9`, "\u2028",
			`\ud83d\ude00`, `\ud83d`, `\ude00`, "\xff", "\xc3", "app.kubernetes.io/name", strings.Repeat("x", longestWord-w.IntN(3)))
	}
	if w.IntN(4) == 0 {
		w.out = append(w.out, fmt.Sprint(w.IntN(5000))...)
	}
	w.out = append(w.out, '"')
}

func (w *writer) value(depth int) {
	kind := w.IntN(8)
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0:
		w.one("null", "true", "false", "{}", "[]")
	case 1:
		w.one("0", "-0", "-0.0", "7", "-7", "255", "256", "1.5", "1e3", "1E-3", "-0e0", "999999999999999999", "1000000000000000000",
			"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1e308", "4.9e-324", "0.1e1", "123456789012345678901234567890")
	case 2, 3, 4:
		w.text()
	case 5:
		w.list('[', ']', func() { w.value(depth - 1) })
	default:
		w.object(depth - 1)
	}
}

func (w *writer) object(depth int) {
	w.list('{', '}', func() {
		w.text()
		w.out = append(w.out, ':')
		w.value(depth)
	})
}

func (w *writer) list(opening, closing byte, one func()) {
	w.out = append(w.out, opening)
	for n := range w.IntN(5) {
		if n > 0 {
			w.out = append(w.out, ',')
		}
		one()
	}
	w.out = append(w.out, closing)
}

// TestManyObjects expects the values of apimachinery for random objects that share the memory and
// the words of one decoder, also behind texts that it does not take, and that earlier objects stay.
func TestManyObjects(t *testing.T) {
	w := &writer{Rand: rand.New(rand.NewPCG(3, 4))}
	var d decoder
	var shared words
	type pair struct{ got, want map[string]any }
	earlier := make([]pair, 16)
	for n := range 8_000 {
		w.out = w.out[:0]
		w.object(4)
		if w.IntN(8) == 0 { // a fault
			switch at := w.IntN(len(w.out)); w.IntN(3) {
			case 0:
				w.out = w.out[:at]
			case 1:
				w.out[at] = `"\{}[],:0-e `[w.IntN(12)]
			default:
				w.out = slices.Delete(w.out, at, at+1)
			}
			same(t, &d, &shared, w.out)
			continue
		}
		got, taken := same(t, &d, &shared, w.out)
		if !taken {
			t.Fatalf("%q is not taken", w.out)
		}
		old := &earlier[n%len(earlier)]
		if !identical(old.want, old.got) {
			t.Fatalf("an earlier object has changed: %#v, want %#v", old.got, old.want)
		}
		if old.got != nil {
			scribble(old.got)
		}
		*old = pair{got: got}
		if err := json.Unmarshal(w.out, &old.want); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDecoderAllocates expects that small integers, and looking for texts that come once, allocate
// nothing.
func TestDecoderAllocates(t *testing.T) {
	var d decoder
	var shared words
	const texts = 64
	object := func(value func(n int) string) []byte {
		var all []string
		for n := range texts {
			all = append(all, fmt.Sprintf(`"key-%d":%s`, n, value(n)))
		}
		return []byte("{" + strings.Join(all, ",") + "}")
	}
	allocations := func(texts ...[]byte) float64 {
		next := 0
		return testing.AllocsPerRun(len(texts)-1, func() {
			if _, ok := d.decode(texts[next], &shared); !ok {
				t.Errorf("%s is not taken", texts[next])
			}
			next++
		})
	}
	literals := slices.Repeat([][]byte{object(func(int) string { return "true" })}, 20)
	allocations(literals...) // makes the keys known
	numbers := slices.Repeat([][]byte{object(func(n int) string { return fmt.Sprint(n) })}, 20)
	if with, without := allocations(numbers...), allocations(literals...); with > without {
		t.Errorf("%v allocations with %d numbers, %v without", with, texts, without)
	}
	var short, long [][]byte
	for round := range 20 {
		short = append(short, object(func(n int) string { return fmt.Sprintf(`"once-%d-%d"`, round, n) }))
		long = append(long, object(func(n int) string { return fmt.Sprintf(`"%0*d-%d"`, longestWord, round, n) }))
	}
	// Of a text that has the slot of a known one, the known one is lost at worst.
	if with, without := allocations(short...), allocations(long...); with > without+texts/8 {
		t.Errorf("%v allocations with %d short texts, %v with long ones", with, texts, without)
	}
}

// typedTexts are objects whose Go types decode themselves, with fields that other decoders take.
func typedTexts() map[reflect.Type][]string {
	managed := `"managedFields":[{"manager":"m","time":"2026-11-01T12:00:00Z","fieldsV1":{"f:data":{"k:{\"a\":1}":{}}}}]`
	return map[reflect.Type][]string{
		reflect.TypeFor[corev1.Pod](): {
			`{"kind":"Pod","metadata":{"name":"a","Name":"b","NAMESPACE":"c","generation":9007199254740993,` + managed + `},"spec":{"containers":[{"name":"x",` +
				`"resources":{"limits":{"cpu":"0.5","memory":"1e3","big":"9223372036854775808","n":2}},"livenessProbe":{"httpGet":{"port":"http"}},"readinessProbe":{"httpGet":{"port":8080}}}],` +
				`"unknown":{"a":[1]},"hostNetwork":null,"nodeSelector":{},"nodeName":"a","nodeName":"b"}}`,
			`{"metadata":{"creationTimestamp":null,"labels":null,"annotations":{"\u0061\ud800":"\u0000"}}}`,
			`{"spec":{"priority":1.5}}`,
			`{"spec":{"priority":2147483648}}`,
		},
		reflect.TypeFor[appsv1.ControllerRevision](): {
			`{"metadata":{"name":"a",` + managed + `},"data":{"spec":{"template":[1,"x",null,1.0e3]}},"revision":7}`,
			`{"metadata":{"name":"b"},"data":["other","` + strings.Repeat("y", 500) + `"],"revision":8}`,
			`{"data":null}`,
		},
		reflect.TypeFor[coordinationv1.Lease](): {
			`{"metadata":{"creationTimestamp":"2026-11-01T12:00:00.123456789Z"},"spec":{"renewTime":"2026-11-01T12:00:00.123456789+02:00","leaseDurationSeconds":15}}`,
			`{"spec":{"renewTime":"no time"}}`,
		},
		reflect.TypeFor[unstructured.Unstructured](): {`{"kind":"A","apiVersion":"v1","a":1e2,"b":-0.0}`, `{"a":1e999}`},
		MetadataType(): {`{"kind":"Pod","metadata":{"name":"a",` + managed + `},"spec":{"a":1}}`},
		KindedType():   {`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a",` + managed + `},"spec":{"a":1}}`},
	}
}

// TestTypedObjects expects the objects and the errors of apimachinery, and that objects keep nothing
// of the memory that the next ones use.
func TestTypedObjects(t *testing.T) {
	for into, texts := range typedTexts() {
		t.Run(into.String(), func(t *testing.T) {
			var c compressor
			var got, want []any
			for range 3 {
				for _, text := range texts {
					o, err := c.compress([]byte(text), into).Object()
					plain, refused := decode(bytes.Clone([]byte(text)), into)
					if (err == nil) != (refused == nil) || err != nil && err.Error() != refused.Error() {
						t.Fatalf("%s: error %v, want %v", text, err, refused)
					}
					if err == nil {
						got, want = append(got, o), append(want, plain)
					}
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestReadersMeetDictionaries expects each object with one of its states, while the store gets its
// dictionaries and the readers change the objects.
func TestReadersMeetDictionaries(t *testing.T) {
	s := New(UnstructuredType(), nil, func(key string, err error) { t.Errorf("%s: %v", key, err) })
	const keys = 20
	put := func(n int) {
		key := fmt.Sprintf("a/%d", n%keys)
		text := fmt.Appendf(nil, `{"metadata":{"namespace":"a","name":"%d"},"n":%d,"same":%d,"text":"%s"}`, n%keys, n, n, strings.Repeat("text ", 30))
		s.Put(key, "uid", fmt.Sprint(n), text, UnstructuredType(), 0)
	}
	for n := range keys {
		put(n)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, o := range s.List() {
					content := o.(*unstructured.Unstructured).Object //nolint:forcetypeassert // its own type
					if content["n"] == nil || content["n"] != content["same"] || len(content) != 4 {
						t.Errorf("an object with parts of several states: %v", maps.Clone(content))
						return
					}
					scribble(content)
				}
			}
		})
	}
	for n := range 2 * sampleDistance * mostSamples {
		put(n)
	}
	close(done)
	readers.Wait()
}
