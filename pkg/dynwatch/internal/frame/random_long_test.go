//go:build long

package frame_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
)

// randomStreams is how many streams TestRandomStreams reads.
const randomStreams = 300

// TestRandomStreams reads random frames, in every form that a server may write
// them and in reads of random sizes, and compares each with the reference.
func TestRandomStreams(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	for i := range uint64(randomStreams) {
		g := generator{rand.New(rand.NewPCG(base, i))}
		secret := g.IntN(3) == 0
		var redactor *frame.Redactor
		if secret {
			redactor = frame.NewRedactor([]byte("key"))
		}
		objects, stream := g.stream()
		got := collect(t, watchBytes(t, &pieces{bytes.NewReader(stream), g.Rand, 3000}, frame.NewNormaliser("v1", "Kind", hiding(redactor))))
		if len(got) != len(objects) {
			t.Fatalf("seed %d/%d: %d of %d frames: %q", base, i, len(got), len(objects), summaries(got))
		}
		for k, e := range got {
			w, ok := e.Object.(*frame.Watched)
			if !ok {
				t.Fatalf("seed %d/%d: %s", base, i, summary(e))
			}
			var err error
			if w.Err != nil {
				err = w.Err
			}
			compare(t, objects[k], secret, w.Object, err)
			if t.Failed() {
				t.Fatalf("seed %d/%d", base, i)
			}
		}
	}
}

func (g generator) value(depth int) any {
	const deepest = 4
	switch kind := g.IntN(8); {
	case kind == 0:
		return nil
	case kind == 1:
		return g.IntN(2) == 0
	case kind == 2:
		return g.Int64()
	case kind == 3 || depth > deepest:
		return g.pick("", `"`, `\`, "é", "\u2028", "a\nb", "}{][", "0123456", "01234567", "012345678", "\x7f<>&", "😀x", "data")
	case kind == 4:
		var list []any
		for range g.IntN(4) {
			list = append(list, g.value(depth+1))
		}
		return list
	default:
		object := make(map[string]any)
		for range g.IntN(5) {
			key := g.pick("data", "metadata", "kind", `a"b`, "stringData", "x", "annotations", "managedFields", "name", "uid")
			object[key] = g.value(depth + 1)
		}
		return object
	}
}

// object makes one that can be passed on.
func (g generator) object(i int) []byte {
	o, ok := g.value(0).(map[string]any)
	if !ok {
		o = make(map[string]any)
	}
	delete(o, "kind")
	metadata := map[string]any{"name": fmt.Sprint("n", i), "uid": "u", "resourceVersion": fmt.Sprint(1 + g.IntN(1000)), "labels": g.value(1)}
	if g.IntN(3) == 0 {
		metadata["managedFields"] = g.value(1)
	}
	if g.IntN(3) == 0 {
		annotations := make(map[string]any)
		for _, key := range []string{"kubectl.kubernetes.io/last-applied-configuration", "zz", "helm.sh/hook"} {
			if g.IntN(2) == 0 {
				annotations[key] = `{"x":1}`
			}
		}
		metadata["annotations"] = annotations
	}
	o["metadata"] = metadata
	if g.IntN(20) == 0 {
		o["big"] = string(bytes.Repeat([]byte(`xyz\"é`), g.IntN(30_000)))
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return raw
}

// stream makes a few objects and the watch response that holds them.
func (g generator) stream() (objects [][]byte, stream []byte) {
	for i := range 1 + g.IntN(8) {
		raw := g.object(i)
		objects = append(objects, raw)
		switch g.IntN(5) {
		case 0:
			stream = fmt.Appendf(stream, `{"type" : "ADDED" ,"object": %s}`, raw)
		case 1:
			stream = fmt.Appendf(stream, `{ "object" : %s , "more":[{}], "type":"ADDED" }`, raw)
		default:
			stream = fmt.Appendf(stream, `{"type":"ADDED","object":%s}`, raw)
		}
		stream = append(stream, g.pick("\n", "\n", "\n\n", "\r\n")...)
	}
	return objects, stream
}
