package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/informd/informd/internal/display"
	"github.com/informd/informd/internal/page"
	"github.com/informd/informd/internal/tail"
)

// Operator does what an operator asks of a running informd, one method per request. Its methods are
// called concurrently. An [ErrUnknown] in their errors is the caller's mistake.
type Operator interface {
	// Reload reads the config and applies it. [ErrUnacceptable] says that the config is wrong.
	Reload(ctx context.Context) (Reload, error)
	// Verify compares every target with the cluster.
	Verify(ctx context.Context) ([]Verdict, error)
	// Rewind moves the cursor of a sink back to the first event since then. It returns when
	// the cursor has moved, which may be long before the sink delivers.
	Rewind(ctx context.Context, sink string, since time.Time) (Rewind, error)
	// Resnapshot emits every object of a resource again. If sink is empty, it returns when
	// the events are in the journal, for all sinks; else when this sink has them.
	Resnapshot(ctx context.Context, resource, sink string) ([]Resnapshot, error)

	// EachLetter calls take with the dead letters of a sink, or of all and the
	// source if sink is empty.
	EachLetter(ctx context.Context, sink string, take func(Letter) error) error
	// RedeliverLetters delivers dead letters again, under new ids, and drops those that
	// the destination accepted. No numbers mean all of them. An event that the destination
	// refuses again is a new dead letter. An event that the sink's match or condition filters
	// out stays a dead letter.
	RedeliverLetters(ctx context.Context, sink string, numbers []uint64) (Count, error)
	// DropLetters removes dead letters; no numbers mean all of them.
	DropLetters(ctx context.Context, sink string, numbers []uint64) (Count, error)

	// History returns what the journal keeps of an object: <resource>[.<group>]/[<namespace>/]<name>.
	History(ctx context.Context, object string) (Past, error)
	// EachGap calls take with the gaps that the journal keeps, oldest first, as CloudEvents.
	EachGap(ctx context.Context, take func(json.RawMessage) error) error
	// Tail returns a reader of the events from now on; see [tail.Feed.Open]. The caller closes it.
	Tail(wants *tail.Wants) (*tail.Reader, error)
}

// ErrUnknown says that what was asked for is not there.
var ErrUnknown = errors.New("unknown")

// Unknown returns an [ErrUnknown] with a complete text.
func Unknown(format string, args ...any) error { return unknownError(fmt.Sprintf(format, args...)) }

type unknownError string

func (e unknownError) Error() string { return string(e) }

// Is makes it an [ErrUnknown].
func (unknownError) Is(target error) bool { return target == ErrUnknown }

// Reload is the answer of a reload that was accepted.
type Reload struct {
	Path string `json:"path"`
	// Pending: the config is used when the journal opens, as on a follower. The rest is empty then.
	Pending bool `json:"pending,omitempty"`
	// Targets is how many there are now. The others are the names of sinks.
	Targets      int      `json:"targets"`
	SinksAdded   []string `json:"sinksAdded,omitempty"`
	SinksRemoved []string `json:"sinksRemoved,omitempty"`
	SinksChanged []string `json:"sinksChanged,omitempty"`
	// Warnings name values that are valid but probably not intended.
	Warnings []string `json:"warnings,omitempty"`
}

// ErrUnacceptable says that informd refuses the config.
var ErrUnacceptable = errors.New("the config is refused")

// Letter is a dead letter: GET /deadletters writes one per line.
type Letter struct {
	Sink   string `json:"sink"`
	Number uint64 `json:"number"`
	// Letter is what was kept: time, reason and the event.
	Letter json.RawMessage `json:"letter"`
}

// Count is the answer about dead letters that were redelivered or dropped.
type Count struct {
	// Events counts those that left the queue.
	Events int `json:"events"`
	// Refused counts those that the destination refused again: they are new dead letters.
	Refused int `json:"refused,omitempty"`
	// Filtered counts those that the sink's match or condition filters out: they stay.
	Filtered int `json:"filtered,omitempty"`
}

// Rewind is the answer about a sink whose cursor moved back.
type Rewind struct {
	// Events is the largest number of events that the sink gets again.
	Events uint64 `json:"events"`
	// State and Error say what keeps the sink from delivering now; both are empty if it
	// delivers.
	State string `json:"state,omitempty"`
	Error string `json:"error,omitempty"`
}

// Verdict is what the comparison of one target came to.
type Verdict struct {
	Target      string `json:"target"`
	Objects     int    `json:"objects"`
	Divergences int    `json:"divergences"`
	// Skipped says why there was nothing to compare: the API server does not serve the
	// resource.
	Skipped string `json:"skipped,omitempty"`
	// Error says why the target could not be compared, empty if it was.
	Error string `json:"error,omitempty"`
}

// Resnapshot is what became of the snapshot of one target on request.
type Resnapshot struct {
	Target string `json:"target"`
	// Run is in the ids of all events of it.
	Run uint64 `json:"run"`
	// Objects is how many objects were emitted again. Objects that changed meanwhile, and
	// objects that the sink filters out, are not counted.
	Objects int `json:"objects"`
	// Error says why it did not come to its end, empty if it did.
	Error string `json:"error,omitempty"`
	// Pending says why it begins later: the sink is down. informd keeps the request, over
	// restarts as well.
	Pending string `json:"pending,omitempty"`
}

// operatorTimeout bounds one of the operator's requests, answerTimeout the writing of
// the answer after that: whoever has waited for so long shall know why in vain.
const (
	operatorTimeout = 10 * time.Minute
	answerTimeout   = 10 * time.Second
)

// operate adds the operator's endpoints.
func (s *Server) operate(mux *http.ServeMux, d *door) {
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /deadletters":            s.letters,
		"POST /deadletters/redeliver": s.onLetters(s.options.Operator.RedeliverLetters),
		"POST /deadletters/drop":      s.onLetters(s.options.Operator.DropLetters),
		"POST /rewind":                s.rewind,
		"POST /resnapshot":            s.resnapshot,
		"POST /verify":                s.verify,
		"POST /reload":                s.reload,
	} {
		mux.Handle(pattern, s.guarded(d.operating, bounded(handle)))
	}
	mux.Handle("GET /history", s.guarded(d.operating, s.limited(maxReaders, s.forwarded(bounded(s.history)))))
	mux.Handle("GET /gaps", s.guarded(d.operating, s.limited(maxReaders, s.forwarded(bounded(s.gaps)))))
	// The tail has no end, and gives each write its own time.
	mux.Handle("GET /tail", s.guarded(d.operating, s.forwarded(answered(s.tail))))
}

// forwarded has the leader serve a request while this informd follows one.
func (s *Server) forwarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.options.Forward != nil {
			if leader := s.options.Forward(); leader != nil {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				defer context.AfterFunc(s.ending, cancel)()
				leader.ServeHTTP(page.Patient(w), r.WithContext(ctx)) // it may be a tail
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// bounded gives an operator's request its time.
func bounded(handle func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := time.Now().Add(operatorTimeout)
		_ = http.NewResponseController(w).SetWriteDeadline(deadline.Add(answerTimeout)) // a server of net/http supports it
		ctx, cancel := context.WithDeadline(r.Context(), deadline)
		defer cancel()
		answered(handle).ServeHTTP(w, r.WithContext(ctx))
	})
}

// answered gives the error of a request a status.
func answered(handle func(w http.ResponseWriter, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := handle(w, r)
		switch {
		case err == nil:
		case errors.Is(err, ErrUnknown), errors.Is(err, ErrUnacceptable):
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

func (s *Server) letters(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	e, some := json.NewEncoder(display.JSONWriter(w)), false
	var gone error
	err := s.options.Operator.EachLetter(r.Context(), r.FormValue("sink"), func(l Letter) error {
		some, gone = true, e.Encode(l)
		return gone
	})
	if gone != nil {
		return nil //nolint:nilerr // the client has gone, and gets nothing more
	}
	if err != nil && some {
		s.abort(r, err)
	}
	return err
}

// abort ends an answer whose status was sent: only a broken connection shows that something is
// missing.
func (s *Server) abort(r *http.Request, err error) {
	s.options.Logger.Warn("list not sent completely; try again", "path", r.URL.Path, "err", err)
	panic(http.ErrAbortHandler)
}

// onLetters does something with letters of one sink: those with the numbers of the
// query, or all of them with all=true.
func (s *Server) onLetters(do func(ctx context.Context, sink string, numbers []uint64) (Count, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := r.ParseForm(); err != nil {
			return Unknown("read the form: %v", err)
		}
		var numbers []uint64
		for _, text := range r.Form["number"] {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return Unknown("%q is not the number of a dead letter: informd deadletters list shows them", text)
			}
			if !slices.Contains(numbers, n) {
				numbers = append(numbers, n)
			}
		}
		if len(numbers) == 0 && r.FormValue("all") != "true" {
			return Unknown("the request names no dead letters: it needs number=<n>, or all=true")
		}
		n, err := do(r.Context(), r.FormValue("sink"), numbers)
		return writeJSON(w, n, err)
	}
}

func (s *Server) rewind(w http.ResponseWriter, r *http.Request) error {
	since, err := time.ParseDuration(r.FormValue("since"))
	if err != nil || since <= 0 {
		return Unknown("since=%q: it must be a duration of more than 0, as in 10m", r.FormValue("since"))
	}
	outcome, err := s.options.Operator.Rewind(r.Context(), r.FormValue("sink"), time.Now().Add(-since))
	return writeJSON(w, outcome, err)
}

func (s *Server) resnapshot(w http.ResponseWriter, r *http.Request) error {
	outcomes, err := s.options.Operator.Resnapshot(r.Context(), r.FormValue("resource"), r.FormValue("sink"))
	return writeJSON(w, outcomes, err)
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	verdicts, err := s.options.Operator.Verify(r.Context())
	return writeJSON(w, verdicts, err)
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) error {
	done, err := s.options.Operator.Reload(r.Context())
	return writeJSON(w, done, err)
}

// writeJSON answers with a value, or returns the error that there is instead.
func writeJSON(w http.ResponseWriter, value any, err error) error {
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(display.JSONWriter(w)).Encode(value)
}
