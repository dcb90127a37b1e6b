package admin_test

import (
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
