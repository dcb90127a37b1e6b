package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

const (
	specSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
)

// verify checks a request as the Standard Webhooks specification tells a consumer
// to, written from that text and not from the sink's code. TestCloudEventsOverHTTP of test/sinks has the reference
// implementation verify the same.
func verify(secret string, header http.Header, body []byte, now time.Time) error {
	id, stamp, list := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	if id == "" || stamp == "" || list == "" {
		return errors.New("missing header")
	}
	if strings.Contains(id, ".") {
		return fmt.Errorf("id %q has a dot", id)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return err
	}
	if age := now.Sub(time.Unix(seconds, 0)).Abs(); age > 5*time.Minute {
		return fmt.Errorf("timestamp is off by %v", age)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	want := mac.Sum(nil)
	for signature := range strings.SplitSeq(list, " ") {
		version, value, _ := strings.Cut(signature, ",")
		got, err := base64.StdEncoding.DecodeString(value)
		if version == "v1" && err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return errors.New("no signature matches")
}

func TestSignature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	rotation := []struct {
		content   string
		good, bad []string
	}{
		{specSecret, []string{specSecret}, []string{otherSecret}},
		{"# new\n" + otherSecret + "\n\n  " + specSecret + "  \r\n", []string{specSecret, otherSecret}, nil},
		{otherSecret + "\n", []string{otherSecret}, []string{specSecret}},
	}
	for name, change := range map[string]func(c *webhook.Config){
		"one event":  func(*webhook.Config) {},
		"batches":    func(c *webhook.Config) { c.Batch = 5 },
		"compressed": func(c *webhook.Config) { c.Compression = compress.Gzip },
		"raw":        func(c *webhook.Config) { c.Format = "raw" },
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, file, []byte(rotation[0].content))
			e := serve(t, nil)
			s := open(t, e.URL, func(c *webhook.Config) {
				c.Signing.KeyFile = file
				change(c)
			})
			for _, step := range rotation {
				writeFile(t, file, []byte(step.content))
				before, _ := e.Requests()
				events := append(sinktest.AllOps(), sinktest.Hostile()...)
				sinktest.MustWrite(t, s, events)
				kept, _ := e.Requests()
				for _, r := range kept[len(before):] {
					for _, secret := range step.good {
						if err := verify(secret, r.Header, r.Body, time.Now()); err != nil {
							t.Errorf("webhook-id %s: %v", r.Header.Get("webhook-id"), err)
						}
					}
					for _, secret := range step.bad {
						if verify(secret, r.Header, r.Body, time.Now()) == nil {
							t.Error("a secret that is not in the file verifies")
						}
					}
				}
			}
			// In the middle of a rotation by somebody who truncates first.
			writeFile(t, file, nil)
			_, err := s.Write(t.Context(), sinktest.Events(1))
			wantError(t, err, false, "no key")
		})
	}
}

func TestMessageID(t *testing.T) {
	e := serve(t, nil)
	s := open(t, e.URL, nil)
	events := append(append(sinktest.AllOps(), sinktest.Hostile()...), sinktest.Events(30)...)
	long, empty := sinktest.Events(1)[0], sinktest.Events(1)[0]
	long.ID, empty.ID = strings.Repeat("a", 5000), ""
	events = append(events, long, empty)
	sinktest.MustWrite(t, s, events)
	kept, _ := e.Requests()
	byID := map[string]string{}
	for i, r := range kept {
		got := r.Header.Get("Webhook-Id")
		if got == "" || len(got) > 200 || strings.ContainsAny(got, "./ @") {
			t.Errorf("webhook-id %q of event %s", got, events[i].ID)
		}
		if other, taken := byID[got]; taken && other != events[i].ID {
			t.Errorf("events %s and %s have the same webhook-id", other, events[i].ID)
		}
		byID[got] = events[i].ID
		if events[i].Op == event.Modified && got != events[i].ID {
			t.Errorf("webhook-id %q of event %s, want the same", got, events[i].ID)
		}
		if _, signed := r.Header["Webhook-Signature"]; signed {
			t.Error("a request without a secret is signed")
		}
	}
}

// TestMessageIDOfClusters: two clusters can come to the same revision, and so to
// control records with the same id. An endpoint must not take one for the other.
func TestMessageIDOfClusters(t *testing.T) {
	record := event.Event{ID: "core/pods:1000:synced", Op: event.Synced, Resource: "pods", ResourceVersion: 1000, Time: time.Now()}
	there := record
	record.Cluster, there.Cluster = "here", "there"
	for name, batch := range map[string]int{"one event": 1, "batches": 2} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, nil)
			s := open(t, e.URL, func(c *webhook.Config) { c.Batch = batch })
			for _, r := range []event.Event{record, there} {
				sinktest.MustWrite(t, s, slices.Repeat([]event.Event{r}, batch))
			}
			kept, _ := e.Requests()
			if a, b := kept[0].Header.Get("Webhook-Id"), kept[1].Header.Get("Webhook-Id"); a == b {
				t.Errorf("the records of two clusters have the webhook-id %s", a)
			}
		})
	}
}
