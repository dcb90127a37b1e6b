package kafka_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/sinktest"
)

// TestRefusedRecord: a broker refuses a batch as a whole for one record that it does not
// want. The sink finds out which one, says that it does not know why, and delivers all
// others once.
func TestRefusedRecord(t *testing.T) {
	const bad = 13
	cluster := startCluster(t)
	s := sinktest.Open(t, config(t, cluster, nil))
	events := sinktest.Events(20)
	events[bad].Data = []byte(`{"object":{"poison":true}}`)
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidRecord, Count: -1, When: func(r kmsg.Request) bool {
		return bytes.Contains(r.AppendTo(nil), []byte("poison"))
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	left := events
	for range 3 { // each time only that one is refused
		n, err := s.Write(ctx, left)
		if left = left[n:]; !sink.IsUnknown(err) || sink.IsPermanent(err) || !strings.Contains(err.Error(), "INVALID_RECORD") {
			t.Fatalf("Write = %d, %v (unknown: %t)", n, err, sink.IsUnknown(err))
		}
		if left[0].ID != events[bad].ID {
			t.Fatalf("the error is about %s, want %s", left[0].ID, events[bad].ID)
		}
	}
	sinktest.MustWrite(t, s, left[1:]) // it is in the dead letters
	want := append(events[:bad:bad], events[bad+1:]...)
	wantOnce(t, cluster, want)
}
