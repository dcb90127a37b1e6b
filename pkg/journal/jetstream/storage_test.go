package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/journal/jetstream"
)

// TestSubjectsOfAnotherStream: the error names the stream that has the subjects, as that of a
// nats sink of any cluster does, and the keys to change.
func TestSubjectsOfAnotherStream(t *testing.T) {
	h := newHost(t)
	if _, err := h.client().CreateStream(t.Context(), js.StreamConfig{Name: "BUS", Subjects: []string{"k8s.>"}}); err != nil {
		t.Fatal(err)
	}
	c := h.config()
	log, reported, err := failToOpen(t, c, "stream BUS")
	for _, want := range []string{"stream BUS", "journal.subjectPrefix"} {
		if !strings.Contains(err.Error()+log, want) {
			t.Errorf("no %q in %v and %v\n%s", want, err, reported, log)
		}
	}
}

// TestServerTooSmall: where the server cannot reserve journal.maxBytes, the error names the
// key, the size and the next step, and Open works once the config asks for less.
func TestServerTooSmall(t *testing.T) {
	h := newHost(t) // which has 1 GiB
	c := h.config()
	c.MaxBytes = 10 << 30
	log, reported, err := failToOpen(t, c, "insufficient storage")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	for _, want := range []string{"journal.maxBytes", "10737418240", "max_file_store", "insufficient storage"} {
		if reported == nil || !strings.Contains(reported.Error(), want) {
			t.Errorf("reported %v, want %q", reported, want)
		}
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "journal full") {
		t.Errorf("the log says that the journal is full:\n%s", log)
	}
	mustClose(t, h.open(func(c *jetstream.Config) { c.MaxBytes = 64 << 20 }))
}

// failToOpen opens a journal that the server refuses. It cancels after the second report with a
// text, so that Open has retried.
func failToOpen(t *testing.T, c jetstream.Config, text string) (log string, reported, err error) {
	t.Helper()
	var lines bytes.Buffer
	c.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reports := 0
	c.Report = func(_ string, err error) {
		if err == nil || !strings.Contains(err.Error(), text) {
			return
		}
		reported = err
		if reports++; reports == 2 {
			cancel()
		}
	}
	if _, err = jetstream.Open(ctx, c); err == nil {
		t.Fatal("Open works")
	}
	return lines.String(), reported, err
}
