package admin_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
)

// TestNumbersOfLettersCountOnce: a number that a request has twice is one dead letter.
func TestNumbersOfLettersCountOnce(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	asked := &operator{}
	o := onSocket(socket)
	o.Operator, o.Logger = asked, slog.New(slog.DiscardHandler)
	s := start(t, o)
	for _, what := range []string{"redeliver", "drop"} {
		asked.numbers = nil
		code, body := request(t, asking(t, s, socket, ""), "POST /deadletters/"+what+"?sink=s&number=3&number=4&number=3", "informd", http.Header{})
		if code != http.StatusOK || !slices.Equal(asked.numbers, []uint64{3, 4}) {
			t.Errorf("%s: %d %s, numbers %v, want 3 and 4", what, code, body, asked.numbers)
		}
	}
}

// TestIncompleteLists: a list fails after its first element. The answer must not look complete, as
// its status was sent before.
func TestIncompleteLists(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	o := onSocket(socket)
	o.Operator, o.Logger = &operator{events: []string{"{}"}, fails: errors.New("the journal has failed")}, slog.New(slog.DiscardHandler)
	s := start(t, o)
	for _, path := range []string{"/deadletters", "/history?object=pods/a/b", "/gaps"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://informd"+path, nil)
		must(t, err)
		response, err := asking(t, s, socket, "").Do(r)
		if err != nil {
			continue // the connection broke before the status
		}
		if text, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("%s: a complete answer: %d %s", path, response.StatusCode, text)
		}
		_ = response.Body.Close()
	}
}
