package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// Peers says how the admin servers of the other replicas are reached.
type Peers struct {
	// Transport reaches them, over TLS if Encrypted is set.
	Transport http.RoundTripper
	Encrypted bool
	// Token returns what they want to be shown, empty for nothing.
	Token func() (string, error)
}

// at is a URL of the admin server with an address.
func (p Peers) at(address, path string) *url.URL {
	u := &url.URL{Scheme: "http", Host: address, Path: path}
	if p.Encrypted {
		u.Scheme = "https"
	}
	return u
}

// authorize shows the token in the header of a request.
func (p Peers) authorize(h http.Header) error {
	token, err := p.Token()
	if err == nil && token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return err
}

const (
	// forwardedHeader marks a request that a replica has sent on: no other one sends it further.
	forwardedHeader = "Informd-Forwarded"
	// readPatience is how long a client may take to read what was sent, as for other answers without an end,
	// and answerPatience how long the leader may take to begin its answer: it may be frozen.
	readPatience   = 10 * time.Second
	answerPatience = 30 * time.Second
)

// Forward sends a request on to the leader, and its answer back as it comes. The caller has to check that
// the request may be served.
func (p Peers) Forward(leader string, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := http.Header{forwardedHeader: {"true"}}
		err := p.authorize(header)
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		case r.Header.Get(forwardedHeader) != "":
			http.Error(w, fmt.Sprintf("this informd does not lead: it follows %s", leader), http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		waiting := time.AfterFunc(answerPatience, func() { cancel(errNoAnswer) })
		defer waiting.Stop()
		proxy := httputil.ReverseProxy{
			Transport: p.Transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
			Rewrite: func(out *httputil.ProxyRequest) {
				out.SetURL(p.at(leader, ""))
				out.Out.Header = header
			},
			ModifyResponse: func(*http.Response) error {
				waiting.Stop()
				return nil
			},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				err = cmp.Or(context.Cause(ctx), err)
				http.Error(w, fmt.Sprintf("this informd follows %s, which does not answer: %v", leader, err), http.StatusServiceUnavailable)
			},
		}
		proxy.ServeHTTP(&timed{w, http.NewResponseController(w)}, r.WithContext(ctx))
	})
}

var errNoAnswer = fmt.Errorf("no answer within %v", answerPatience)

// timed limits the time of each write and flush.
type timed struct {
	http.ResponseWriter

	control *http.ResponseController
}

// Unwrap is for [http.ResponseController].
func (t *timed) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Write implements [http.ResponseWriter].
func (t *timed) Write(b []byte) (int, error) {
	if err := t.control.SetWriteDeadline(time.Now().Add(readPatience)); err != nil {
		return 0, err
	}
	return t.ResponseWriter.Write(b)
}

// FlushError is for [http.ResponseController]. A limit that stayed would end an idle stream of HTTP/2.
func (t *timed) FlushError() error {
	return errors.Join(t.control.Flush(), t.control.SetWriteDeadline(time.Time{}))
}
