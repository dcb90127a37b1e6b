package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Manners are how the webhook receiver treats those who call.
type Manners struct {
	// Slow is the most that an answer is held back.
	Slow time.Duration
	// Hang: never answer.
	Hang bool
	// Status is answered to Share of the requests instead of taking the event.
	Status int
	Share  float64
	// LoseAnswers: of Share of the requests, take the event and cut the connection.
	LoseAnswers bool
	// Poison is the share of events that are refused with 400, and for ever.
	Poison float64
}

// Hook is a webhook receiver: a consumer that misbehaves.
type Hook struct {
	*consumer
	server   *http.Server
	listener net.Listener
	serving  sync.WaitGroup

	requestsMu sync.Mutex
	requests   []request

	mannersMu sync.Mutex
	manners   Manners
	changed   chan struct{}
	random    *rand.Rand
}

// request is one that was taken: when, and on which path.
type request struct {
	at   time.Time
	path string
}

// NewHook listens on a loopback port.
func NewHook(targets map[string]bool, seed uint64) (*Hook, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &Hook{
		consumer: newConsumer("webhook", targets), listener: listener,
		changed: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 3)),
	}
	h.server = &http.Server{Handler: http.HandlerFunc(h.receive), ReadHeaderTimeout: time.Minute}
	h.serving.Go(func() { _ = h.server.Serve(listener) }) // ends with Close
	return h, nil
}

// URL is where to post.
func (h *Hook) URL() string { return "http://" + h.listener.Addr().String() + "/" }

// Close ends the receiver.
func (h *Hook) Close() error {
	h.Behave(Manners{}) // wakes those that hang
	err := h.server.Close()
	h.serving.Wait()
	return err
}

// Behave changes the manners, and ends what hangs.
func (h *Hook) Behave(m Manners) {
	h.mannersMu.Lock()
	defer h.mannersMu.Unlock()
	h.manners = m
	close(h.changed)
	h.changed = make(chan struct{})
}

// draw returns the manners of now and whether this request is of the share.
func (h *Hook) draw() (m Manners, struck bool, slow time.Duration, changed <-chan struct{}) {
	h.mannersMu.Lock()
	defer h.mannersMu.Unlock()
	if h.manners.Slow > 0 {
		slow = time.Duration(h.random.Int64N(int64(h.manners.Slow)))
	}
	return h.manners, h.random.Float64() < h.manners.Share, slow, h.changed
}

func (h *Hook) receive(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender is gone
	}
	m, struck, slow, changed := h.draw()
	switch {
	case m.Hang:
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case slow > 0:
		select {
		case <-time.After(slow):
		case <-r.Context().Done(): // taken all the same
		}
	case m.Status != 0 && struck:
		if m.Status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(m.Status)
		return
	}
	if !h.take(raw, m.Poison) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.requestsMu.Lock()
	h.requests = append(h.requests, request{time.Now(), r.URL.Path})
	h.requestsMu.Unlock()
	if m.LoseAnswers && struck {
		panic(http.ErrAbortHandler)
	}
}

// take adds the events of a request, one or a batch. A batch with one that is
// poison is refused as a whole; sent alone, the poison is refused for good.
func (h *Hook) take(raw []byte, share float64) bool {
	events := []json.RawMessage{raw}
	if bytes.HasPrefix(raw, []byte("[")) {
		events = nil
		if err := json.Unmarshal(raw, &events); err != nil {
			h.add(Delivery{}, nil, err)
			return true
		}
	}
	all := make([]Delivery, len(events))
	for i, event := range events {
		d, err := decodeCloudEvent(event)
		if err != nil {
			h.add(d, event, err)
			return true
		}
		if h.poisonous(&d, share) {
			if len(events) == 1 {
				h.refuse(d)
			}
			return false
		}
		all[i] = d
	}
	for i := range all {
		h.add(all[i], events[i], nil)
	}
	return true
}

// poisonous picks events by their ids, so that one that is refused stays so.
// Endings and control records are spared: whoever refuses those has lost.
func (h *Hook) poisonous(d *Delivery, share float64) bool {
	h.mu.Lock()
	refused := h.consumer.refused[d.ID]
	h.mu.Unlock()
	if refused || share == 0 || d.control() || d.Op == opDeleted {
		return refused
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(d.ID)) // cannot fail
	return float64(sum.Sum32())/(1<<32) < share
}
