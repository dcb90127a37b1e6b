package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/pkg/event"
)

// addBody adds an event, or a batch of them.
func (e *Endpoint) addBody(body []byte) {
	events := []json.RawMessage{body}
	if bytes.HasPrefix(body, []byte("[")) {
		if err := json.Unmarshal(body, &events); err != nil {
			e.add(Arrival{}, err.Error())
		}
	}
	for _, event := range events {
		a, mistakes := fromJSON(event)
		e.add(a, mistakes...)
	}
}

// HasAll reports whether all of these have arrived.
func (e *Endpoint) HasAll(want []Arrival) bool {
	arrivals, _ := e.All()
	names := make(map[string]bool)
	for _, a := range arrivals {
		names[a.Object()] = true
	}
	return !slices.ContainsFunc(want, func(a Arrival) bool { return !names[a.Object()] })
}

// Arrival is one event at the other side of a sink.
type Arrival struct {
	Op, Group, Resource, Namespace, Name, UID string
	// Content is a hash of the object, see contentOf.
	Content string
}

// Object names the object of an arrival.
func (a Arrival) Object() string {
	return a.Group + "|" + a.Resource + "|" + a.Namespace + "|" + a.Name
}

// Endpoint collects what one sink sends. Its methods may be called concurrently.
type Endpoint struct {
	mu       sync.Mutex
	arrivals []Arrival
	mistakes []string
}

func (e *Endpoint) add(a Arrival, mistakes ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.arrivals, e.mistakes = append(e.arrivals, a), append(e.mistakes, mistakes...)
}

// All returns what arrived, and what was wrong with it.
func (e *Endpoint) All() ([]Arrival, []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clip(e.arrivals), e.mistakes
}

// ContentOf is a hash of an object that does not depend on how it is written, without what
// informd or a deletion changes: managed fields and the resourceVersion. "" is no object.
func ContentOf(object []byte) string {
	if len(object) == 0 {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var o map[string]any
	if err := decoder.Decode(&o); err != nil {
		return err.Error()
	}
	if metadata, ok := o["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		delete(metadata, "resourceVersion")
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// fromJSON reads a whole event as JSON.
func fromJSON(text []byte) (a Arrival, mistakes []string) {
	var e struct {
		Arrival
		Data struct{ Object json.RawMessage }
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return a, []string{fmt.Sprintf("%v: %.200q", err, text)}
	}
	e.Content = ContentOf(e.Data.Object)
	return e.Arrival, nil
}

// fromAttributes reads an event whose attributes stand beside its data.
func fromAttributes(attribute func(name string) string, body []byte) (a Arrival, mistakes []string) {
	var data struct{ Object json.RawMessage }
	if len(body) > 0 {
		if err := json.Unmarshal(body, &data); err != nil {
			mistakes = append(mistakes, err.Error())
		}
	}
	a = Arrival{
		Op: attribute("op"), Group: attribute("group"), Resource: attribute("resource"),
		Namespace: attribute("namespace"), Name: attribute("name"), UID: attribute("uid"), Content: ContentOf(data.Object),
	}
	return a, mistakes
}

// fromHeaders reads an event in the binary mode of NATS and HTTP, and holds every header to
// printable ASCII.
func fromHeaders(headers map[string][]string, get func(string) string, body []byte) (a Arrival, mistakes []string) {
	for name, values := range headers {
		for _, value := range append([]string{name}, values...) {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
				mistakes = append(mistakes, fmt.Sprintf("header %.200q has %.200q", name, value))
			}
		}
	}
	a, more := fromAttributes(func(name string) string {
		value, err := url.PathUnescape(get("ce-" + name))
		if err != nil {
			mistakes = append(mistakes, err.Error())
		}
		return value
	}, body)
	return a, append(mistakes, more...)
}

// checkSubject holds the subject of a message to what it has to name.
func (a Arrival) checkSubject(subject string) (mistakes []string) {
	tokens := strings.Split(subject, ".")
	want := []string{"e2e", GroupOrCore(a.Group), a.Resource, a.Namespace, a.Name}
	if len(tokens) != len(want)+1 {
		return []string{fmt.Sprintf("subject %.200q has %d tokens", subject, len(tokens))}
	}
	for i, token := range tokens[1:] {
		if got, err := event.UnescapeToken(token); err != nil || got != want[i] {
			mistakes = append(mistakes, fmt.Sprintf("subject %.200q does not name %.200q: %v", subject, want[i], err))
		}
	}
	return mistakes
}

// addMessage adds a message of a nats sink.
func (e *Endpoint) addMessage(subject string, headers nats.Header, body []byte) {
	a, mistakes := fromHeaders(headers, headers.Get, body)
	if a.Name != "" {
		mistakes = append(mistakes, a.checkSubject(subject)...)
	}
	e.add(a, mistakes...)
}

// readLines adds the lines of a file, each an event.
func (e *Endpoint) readLines(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	Must(t, err)
	defer file.Close() //nolint:errcheck // nothing was written
	e.readFrom(t, file)
}

func (e *Endpoint) readFrom(t *testing.T, r io.Reader) {
	t.Helper()
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return
		}
		if err != nil {
			t.Fatalf("read events: %v: %.200q", err, line)
		}
		a, mistakes := fromJSON(line)
		e.add(a, mistakes...)
	}
}

// serveHTTP starts a webhook's other side. It takes headers of 16 KiB, as many servers do.
func serveHTTP(t *testing.T, take func(header http.Header, body []byte)) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		take(r.Header, body)
		w.WriteHeader(http.StatusNoContent)
	}))
	server.Config.MaxHeaderBytes = 8 << 10 // net/http adds 4 KiB, and what it reads ahead
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// subscribe collects what a nats sink without a stream sends.
func (e *Endpoint) subscribe(t *testing.T, server, prefix string) {
	t.Helper()
	nc, err := nats.Connect(server)
	Must(t, err)
	t.Cleanup(nc.Close)
	s, err := nc.Subscribe(prefix+".>", func(m *nats.Msg) { e.addMessage(m.Subject, m.Header, m.Data) })
	if err == nil {
		err = errors.Join(s.SetPendingLimits(-1, -1), nc.Flush())
	}
	Must(t, err)
}

// startBroker runs a Kafka broker and returns its address. take gets each record.
func startBroker(t *testing.T, take func(key string, headers map[string][]byte, value []byte)) string {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	Must(t, err)
	t.Cleanup(broker.Close)
	const newTopics = 200 * time.Millisecond // how often the reader looks for topics that were made since
	reader, err := kgo.NewClient(
		kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeRegex(), kgo.ConsumeTopics(".*"), kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(newTopics/2), kgo.MetadataMaxAge(newTopics), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	Must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			fetches := reader.PollFetches(ctx)
			if err := fetches.Err(); err != nil && ctx.Err() == nil {
				t.Errorf("read records: %v", err)
				return
			}
			for r := range fetches.RecordsAll() {
				headers := make(map[string][]byte)
				for _, h := range r.Headers {
					headers[h.Key] = h.Value
				}
				take(string(r.Key), headers, r.Value)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
		reader.Close()
	})
	return broker.ListenAddrs()[0]
}
