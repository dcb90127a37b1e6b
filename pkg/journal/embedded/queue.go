package embedded

import (
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
)

const (
	// maxWaiting and maxWaitingBytes bound the requests of one client that wait. A client
	// that sends more is disconnected. A client that waits for each answer has one.
	maxWaiting      = 256
	maxWaitingBytes = 256 << 10
	// maxWaitingClients bounds the clients that have waiting requests. Some of them may have
	// closed their connections.
	maxWaitingClients = 2 * maxReaders
)

// queue holds the requests of readers. Each client in order gets one of its requests served,
// so that a client with many requests does not delay the others.
type queue struct {
	ready chan struct{} // has an element if a request may wait

	mu      sync.Mutex
	waiting map[uint64]*waitingRequests // by client; without empty ones
	order   []uint64                    // the clients of waiting, the next one first
}

type waitingRequests struct {
	requests []request
	bytes    int
}

// request is a reader's request.
type request struct {
	*nats.Msg

	tooLarge bool // its header and body were removed
}

// added is what became of a request.
type added int

const (
	accepted added = iota
	// overflow: the client has too many waiting requests. The queue dropped all of them.
	overflow
	// full: too many clients have waiting requests. The queue dropped this one.
	full
)

func newQueue() *queue {
	return &queue{ready: make(chan struct{}, 1), waiting: make(map[uint64]*waitingRequests)}
}

func (q *queue) add(client uint64, r request) added {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.waiting[client]
	if w == nil {
		if len(q.waiting) >= maxWaitingClients {
			return full
		}
		w = &waitingRequests{}
		q.waiting[client] = w
		q.order = append(q.order, client)
	}
	if len(w.requests) >= maxWaiting || w.bytes+len(r.Data) > maxWaitingBytes {
		delete(q.waiting, client)
		q.order = slices.DeleteFunc(q.order, func(other uint64) bool { return other == client })
		return overflow
	}
	w.requests = append(w.requests, r)
	w.bytes += len(r.Data)
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return accepted
}

// next removes the request that is to be served next, false if no request waits.
func (q *queue) next() (request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return request{}, false
	}
	client := q.order[0]
	q.order = q.order[1:]
	w := q.waiting[client]
	r := w.requests[0]
	w.requests[0] = request{}
	w.requests = w.requests[1:]
	w.bytes -= len(r.Data)
	if len(w.requests) == 0 {
		delete(q.waiting, client)
	} else {
		q.order = append(q.order, client)
	}
	return r, true
}
