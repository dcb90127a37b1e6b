package frame

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

// chunks is a body that returns one chunk for each Read.
type chunks []string

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; (*c)[0] == "" {
		*c = (*c)[1:]
	}
	return n, nil
}

func (c *chunks) Close() error { return nil }

// An idle watch gives the memory of a burst back.
func TestIdleWatchGivesMemoryBack(t *testing.T) {
	frame := func(rv int) string {
		return fmt.Sprintf(`{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b",`+
			`"uid":"0123","resourceVersion":"%d","annotations":{"filling":%q}}}}`+"\n", rv, strings.Repeat("x", 900))
	}
	var burst strings.Builder
	for i := range 200 {
		burst.WriteString(frame(i + 1))
	}
	body := chunks{burst.String()}
	const bookmarks = 120 // two hours
	for i := range bookmarks {
		body = append(body, fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}}`+"\n", 1000+i))
	}
	s := &stream{frames: NewNormaliser("v1", "Pod", Options{}), body: &body}
	s.window.r, s.window.max, s.window.least = &body, maxFrame, watchRead
	most, frames := 0, 0
	for {
		if _, err := s.Read(nil); err != nil {
			break
		}
		for w, _ := s.object.(*Watched); w != nil; w = w.Done() {
			frames++
		}
		most = max(most, len(s.window.buf))
	}
	if frames != 200+bookmarks || most < 16<<10 {
		t.Fatalf("%d frames, a buffer of up to %d bytes", frames, most)
	}
	if n := len(s.window.buf); n > watchRead {
		t.Errorf("an idle watch keeps a buffer of %d bytes, want at most %d", n, watchRead)
	}
	for i := range s.arrivals {
		if n := cap(s.arrivals[i].frames); n > 4 {
			t.Errorf("an idle watch keeps room for %d frames", n)
		}
		if n := cap(s.arrivals[i].memory.data); n > 1<<10 {
			t.Errorf("an idle watch keeps %d bytes for objects", n)
		}
	}
}

// neighbour is a body after whose end another watch takes the large buffers that no watch uses, and writes into them.
type neighbour struct {
	chunks

	large *sync.Pool
}

func (n *neighbour) Read(p []byte) (int, error) {
	read, err := n.chunks.Read(p)
	for err != nil {
		buf, ok := n.large.Get().(*[]byte)
		if !ok {
			break
		}
		clear(*buf)
	}
	return read, err
}

// TestLastFrameIsItsOwn: a last frame without a newline is read from the buffer that the watch has then: a large one was
// given back.
func TestLastFrameIsItsOwn(t *testing.T) {
	frame := func(rv int, filling string) string {
		return fmt.Sprintf(`{"type":"ADDED","object":{"metadata":{"name":"a","uid":"0123","resourceVersion":"%d","labels":{"x":%q}}}}`, rv, filling)
	}
	var large sync.Pool
	body := &neighbour{chunks{frame(1, strings.Repeat("x", 200<<10)) + "\n" + frame(2, "")}, &large}
	s := &stream{frames: NewNormaliser("v1", "Pod", Options{}), body: body}
	s.window.r, s.window.max, s.window.least, s.window.large = body, maxFrame, watchRead, &large
	for rv := range uint64(2) {
		if _, err := s.Read(nil); err != nil {
			t.Fatal(err)
		}
		if w, ok := s.object.(*Watched); !ok || w.Err != nil || w.ResourceVersion != rv+1 {
			t.Errorf("read %+v, want revision %d", s.object, rv+1)
		}
	}
}
