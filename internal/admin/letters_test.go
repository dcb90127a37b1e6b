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

// TestIncompleteListOfLetters: the list fails after its first dead letter. The answer must not look
// complete, as its status was sent before.
func TestIncompleteListOfLetters(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	o := onSocket(socket)
	o.Operator, o.Logger = &operator{fails: errors.New("the journal has failed")}, slog.New(slog.DiscardHandler)
	s := start(t, o)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://informd/deadletters", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := asking(t, s, socket, "").Do(r)
	if err != nil {
		return // the connection broke before the status
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("a complete answer: %d %s", response.StatusCode, text)
	}
}
