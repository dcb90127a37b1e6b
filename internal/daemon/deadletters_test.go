package daemon

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/deliver"
	"github.com/informd/informd/pkg/event"
)

// configMap is an event of a ConfigMap that cannot be compressed to less than that many bytes.
func configMap(revision uint64, size int) event.Event {
	random := rand.NewChaCha8([32]byte{})
	bytes := make([]byte, 0, size)
	for len(bytes) < size {
		bytes = binary.LittleEndian.AppendUint64(bytes, random.Uint64())
	}
	return event.Event{
		ID: fmt.Sprint("uid:", revision), Op: event.Modified, Cluster: "test", Target: "core/configmaps", Version: "v1", Resource: "configmaps",
		Kind: "ConfigMap", Namespace: "tenant", Name: "large", UID: "uid", ResourceVersion: revision, Ordinal: revision,
		Data: fmt.Appendf(nil, `{"object":{"data":{"key":%q}}}`, base64.StdEncoding.EncodeToString(bytes)),
	}
}

// TestDeadLettersLeaveSpaceForEvents: a sink that refuses each update of a large object does not
// fill the log. Other resources continue, and no dead letter is missing.
func TestDeadLettersLeaveSpaceForEvents(t *testing.T) {
	const n = 100 // of 1 MiB each, in a log that keeps less of them
	var log logBuffer
	c := &config.Config{Cluster: "test", Journal: config.Journal{
		Type: config.JournalLog, Dir: t.TempDir(), MaxBytes: 64 << 20, HistoryPerObject: 16, DeletedRetention: time.Hour,
	}}
	st, err := openJournal(t.Context(), c, nil, slog.New(slog.NewTextHandler(&log, nil)))
	must(t, err)
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	letters := deliver.NewDeadLetters("hook", st.DeadLetters("hook"))
	e := configMap(1, 1<<20)
	for i := range n {
		e.ResourceVersion = uint64(i) + 1
		if err := letters.Write(t.Context(), deliver.Letter{Event: &e, Reason: "too large", Attempts: 1}); err != nil {
			t.Errorf("dead letter %d: %v", i, err)
			break
		}
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pod := event.Event{
		ID: "pod:1", Op: event.Added, Cluster: "test", Target: "core/pods", Version: "v1", Resource: "pods", Kind: "Pod",
		Namespace: "default", Name: "small", UID: "pod", ResourceVersion: 1, Ordinal: 1, Data: []byte(`{"object":{}}`),
	}
	if err := st.Append(within, []event.Event{pod}); err != nil {
		t.Errorf("an event of another resource: %v", err)
	}

	listed, whole := 0, 0
	err = letters.Each(t.Context(), func(k deliver.Kept) error {
		listed++
		switch {
		case k.Event == nil || k.Event.ResourceVersion != uint64(listed):
			t.Errorf("dead letter %d: %.300s", listed, k.JSON)
		case len(k.Event.Data) == len(e.Data):
			if whole++; whole != listed {
				t.Errorf("dead letter %d has data, an earlier one has none", listed)
			}
		case len(k.Event.Data) != 0 || !strings.Contains(string(k.JSON), "without the event's data"):
			t.Errorf("dead letter %d has %d bytes of data: %.300s", listed, len(k.Event.Data), k.JSON)
		}
		return nil
	})
	if err != nil || listed != n || whole == 0 || whole == n {
		t.Errorf("%d dead letters are listed, %d with data (%v); want %d, the first with data", listed, whole, err, n)
	}
	if lines := strings.Count(log.String(), "large ones stored without data"); lines != 1 {
		t.Errorf("the limit is logged %d times, want once", lines)
	}
}
