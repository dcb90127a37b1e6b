package jetstream_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// record reads a record of the state stream behind the journal's back.
func record(t *testing.T, h *host, key string, into any) {
	t.Helper()
	client := h.shared()
	stream, err := client.Stream(t.Context(), "INFORMD_STATE")
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), "INFORMD_STATE."+key)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(m.Data, into); err != nil {
		t.Fatal(err)
	}
}

// stateOf puts the state stream of one store into another one.
func stateOf(t *testing.T, from, to string) {
	t.Helper()
	const streams = "jetstream/$G/streams/INFORMD_STATE"
	if err := os.RemoveAll(filepath.Join(to, streams)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(to, streams), os.DirFS(filepath.Join(from, streams))); err != nil {
		t.Fatal(err)
	}
}
