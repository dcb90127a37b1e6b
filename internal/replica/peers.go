package replica

import (
	"cmp"
	"context"
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
	// answerPatience is how long the leader may take to begin its answer: it may be frozen.
	answerPatience = 30 * time.Second
)

// Forward sends a request on to the leader, and its answer back as it comes. The caller has to check that
// the request may be served, and how long the client may take to read.
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
		proxy.ServeHTTP(w, r.WithContext(ctx))
	})
}

var errNoAnswer = fmt.Errorf("no answer within %v", answerPatience)
