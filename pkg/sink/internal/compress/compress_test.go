package compress_test

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decode unpacks with the formats' own libraries.
func decode(t *testing.T, m compress.Method, packed []byte) string {
	t.Helper()
	text, err := endpointtest.Unpack(string(m), packed)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func TestEncodeConcurrently(t *testing.T) {
	for _, m := range []compress.Method{compress.None, compress.Gzip, compress.Zstd} {
		t.Run(string(m), func(t *testing.T) {
			e, err := compress.NewEncoder(m)
			sinktest.Must(t, err)
			var working sync.WaitGroup
			for i := range 4 {
				working.Go(func() {
					for n := range 20 {
						body := strings.Repeat(string(rune('a'+i)), n*1000)
						packed, err := e.Encode([]byte(body))
						if err != nil {
							t.Error(err)
						} else if got := decode(t, m, packed); got != body {
							t.Errorf("%d bytes came back as %d", len(body), len(got))
						} else if m != compress.None && len(body) > 1000 && len(packed) > len(body)/10 {
							t.Errorf("%d equal bytes take %d", len(body), len(packed))
						}
					}
				})
			}
			working.Wait()
		})
	}
}

func TestWriter(t *testing.T) {
	body := strings.Repeat("0123456789", 300_000)
	for _, m := range []compress.Method{compress.Gzip, compress.Zstd} {
		t.Run(string(m), func(t *testing.T) {
			var packed bytes.Buffer
			w, err := m.NewWriter(&packed)
			sinktest.Must(t, err)
			if _, err := io.Copy(w, strings.NewReader(body)); err != nil {
				t.Fatal(err)
			}
			sinktest.Must(t, w.Close())
			if decode(t, m, packed.Bytes()) != body {
				t.Error("something else came back")
			}
		})
	}
}

func TestDecode(t *testing.T) {
	body := strings.Repeat("0123456789", 1000)
	for _, m := range []compress.Method{compress.None, compress.Gzip, compress.Zstd} {
		t.Run(string(m), func(t *testing.T) {
			e, err := compress.NewEncoder(m)
			sinktest.Must(t, err)
			packed, err := e.Encode([]byte(body))
			sinktest.Must(t, err)
			if got, err := m.Decode(packed, len(body)); string(got) != body {
				t.Errorf("%d bytes came back as %d: %v", len(body), len(got), err)
			}
			if got, err := m.Decode(packed, len(body)-1); err == nil {
				t.Errorf("%d bytes came back, beyond the limit", len(got))
			}
			if got, err := m.Decode(packed[:len(packed)/2], len(body)); err == nil && m != compress.None {
				t.Errorf("%d bytes came back of a half", len(got))
			}
		})
	}
	if _, err := compress.Method("snappy").Decode(nil, 1); err == nil {
		t.Error("an unknown method has no error")
	}
}

func TestProblem(t *testing.T) {
	for m, bad := range map[compress.Method]bool{"none": false, "gzip": false, "zstd": false, "": true, "GZIP": true, "lz4": true} {
		if got := m.Problem(); (got != "") != bad {
			t.Errorf("Problem of %q: %q", string(m), got)
		}
	}
}
