package gateway

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

const pieceBytes = 32 << 10

// transfer is one response on its way to the client.
type transfer struct {
	w       http.ResponseWriter
	flush   func() error
	held    []byte
	since   time.Time // when the oldest held byte came
	arrived time.Time // when the last byte came
}

// forward sends a response as the behavior of the moment permits. It returns nil
// only if the client has the whole response.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request, response *http.Response) error {
	dropHopByHop(response.Header)
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	t := &transfer{w: w, flush: http.NewResponseController(w).Flush, arrived: time.Now()}
	if b, _ := g.now(); !b.HeadersWithBody {
		if err := t.flush(); err != nil {
			return err
		}
	}
	p := newPump(response.Body)
	defer p.close()
	for {
		done, err := t.step(r.Context(), g, p)
		if done || err != nil {
			return err
		}
	}
}

// step waits for the next thing that happens to a response, and acts on it.
func (t *transfer) step(ctx context.Context, g *Gateway, p *pump) (done bool, err error) {
	b, changed := g.now()
	pieces := p.pieces
	if b.Stall || len(t.held) >= bufferBytes {
		pieces = nil
	}
	due := t.due(&b)
	if due == 0 && !b.Stall {
		return false, t.release()
	}
	wake, stop := timer(due, b.Idle > 0 && !b.Stall, time.Until(t.arrived.Add(b.Idle)))
	defer stop()
	select {
	case piece, more := <-pieces:
		t.arrived = time.Now()
		if !more {
			return true, errors.Join(t.release(), p.err)
		}
		if len(t.held) == 0 {
			t.since = t.arrived
		}
		t.held = append(t.held, piece...)
		p.taken <- struct{}{}
		return false, nil
	case <-wake:
		if b.Idle > 0 && !b.Stall && time.Since(t.arrived) >= b.Idle {
			return false, errIdle
		}
		return false, nil
	case <-changed:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// due returns how long held bytes have to wait; negative: nothing is held, or a
// stalled gateway keeps it.
func (t *transfer) due(b *Behavior) time.Duration {
	switch {
	case len(t.held) == 0 || b.Stall:
		return -1
	case len(t.held) >= bufferBytes:
		return 0
	default:
		return max(0, time.Until(t.since.Add(b.Buffer)))
	}
}

// timer wakes when held bytes are due or the response was idle for too long.
func timer(due time.Duration, limited bool, idle time.Duration) (wake <-chan time.Time, stop func()) {
	wait := due
	if limited && (due < 0 || idle < due) {
		wait = max(0, idle)
	}
	if wait < 0 {
		return nil, func() {}
	}
	t := time.NewTimer(wait)
	return t.C, func() { t.Stop() }
}

func (t *transfer) release() error {
	if len(t.held) == 0 {
		return nil
	}
	_, err := t.w.Write(t.held)
	t.held = t.held[:0]
	return errors.Join(err, t.flush())
}

// pump reads a body piece by piece, so that its reader can wait for other things.
type pump struct {
	pieces  chan []byte   // closed at the end of the body
	taken   chan struct{} // the reader is done with the piece
	err     error         // after the end; nil if the body is whole
	body    io.ReadCloser
	quit    chan struct{}
	running sync.WaitGroup
}

func newPump(body io.ReadCloser) *pump {
	p := &pump{pieces: make(chan []byte), taken: make(chan struct{}), body: body, quit: make(chan struct{})}
	p.running.Go(p.run)
	return p
}

// close ends the reading and waits for it.
func (p *pump) close() {
	close(p.quit)
	_ = p.body.Close() // ends a read that waits
	p.running.Wait()
}

func (p *pump) run() {
	defer close(p.pieces)
	buffer := make([]byte, pieceBytes)
	for {
		n, err := p.body.Read(buffer)
		if n > 0 && !p.hand(buffer[:n]) {
			return
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.err = err
			}
			return
		}
	}
}

// hand gives a piece to the reader; false if it wants no more.
func (p *pump) hand(piece []byte) bool {
	for _, step := range []func() bool{
		func() bool {
			select {
			case p.pieces <- piece:
				return true
			case <-p.quit:
				return false
			}
		},
		func() bool {
			select {
			case <-p.taken:
				return true
			case <-p.quit:
				return false
			}
		},
	} {
		if !step() {
			return false
		}
	}
	return true
}
