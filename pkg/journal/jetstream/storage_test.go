package jetstream_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

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
	var log bytes.Buffer
	c := h.config()
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := jetstream.Open(ctx, c)
	if err == nil {
		t.Fatal("Open works")
	}
	for _, want := range []string{"stream BUS", "journal.subjectPrefix"} {
		if !strings.Contains(err.Error()+log.String(), want) {
			t.Errorf("no %q in %v\n%s", want, err, log.String())
		}
	}
}

// TestServerTooSmall: where the server cannot reserve journal.maxBytes, the error names the
// key, the size and the next step, and Open works once the config asks for less.
func TestServerTooSmall(t *testing.T) {
	h := newHost(t) // which has 1 GiB
	var log bytes.Buffer
	reported := make(chan error, 100)
	c := h.config()
	c.MaxBytes = 10 << 30
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.Report = func(_ string, err error) {
		select {
		case reported <- err:
		default:
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := jetstream.Open(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open: %v", err)
	}
	for _, want := range []string{"journal.maxBytes", "10737418240", "max_file_store", "insufficient storage"} {
		if err := <-reported; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("reported %v, want %q", err, want)
		}
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "journal full") {
		t.Errorf("the log says that the journal is full:\n%s", log.String())
	}
	mustClose(t, h.open(func(c *jetstream.Config) { c.MaxBytes = 64 << 20 }))
}
