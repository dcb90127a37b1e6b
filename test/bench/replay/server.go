package replay

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/test/bench/corpus"
)

// Options of a server.
type Options struct {
	// Corpus is what there is, Objects how many.
	Corpus  *corpus.Corpus
	Objects int
	// Kinds is how many custom resources there are beside the corpus, with one object
	// each: see [Kind].
	Kinds int
	// Clock stamps what is sent, in nanoseconds. Default: nothing is stamped.
	Clock func() int64
}

// Server is a running server. Its methods may be called concurrently.
type Server struct {
	options   Options
	history   *history
	kinds     *kinds
	server    *http.Server
	url       string
	authority []byte
	served    sync.WaitGroup
	lease     lease

	mu      sync.Mutex
	watches map[*objectWatch]struct{}
	unknown map[string]int // requests that were answered with 404, by path

	listed, sent atomic.Int64
}

// Stats is what a server has done so far.
type Stats struct {
	// Head is the newest revision.
	Head uint64
	// Watches are those of objects that are open, Behind how many revisions the
	// slowest of them has not been written yet.
	Watches int
	Behind  uint64
	// Listed are the objects that lists and the beginnings of watches have sent,
	// Sent the events.
	Listed, Sent int64
	// Unknown are the paths that were answered with 404, and how often.
	Unknown map[string]int
	// LeaseReads and LeaseWrites are requests for the Lease.
	LeaseReads, LeaseWrites int64
}

// New starts a server on a loopback port. It serves until Close.
func New(o Options) (*Server, error) {
	if o.Objects < 1 || o.Objects%stride == 0 {
		return nil, fmt.Errorf("%d objects: want at least one, and no multiple of %d", o.Objects, stride)
	}
	certificate, authority, err := identity()
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of a loopback port, at once
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: o, history: newHistory(o.Objects), kinds: newKinds(o.Kinds), url: "https://" + listener.Addr().String(), authority: authority,
		watches: make(map[*objectWatch]struct{}), unknown: make(map[string]int),
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	s.server = &http.Server{
		Handler: s, ReadHeaderTimeout: time.Minute, Protocols: protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), ConnContext: withCork,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13},
	}
	s.served.Go(func() {
		_ = s.server.ServeTLS(corkedListener{listener}, "", "") // it ends with Close
	})
	return s, nil
}

// URL is where clients connect to.
func (s *Server) URL() string { return s.url }

// Authority is the certificate, in PEM, that the server's is signed with.
func (s *Server) Authority() []byte { return s.authority }

// WriteKubeconfig writes what clients need to a file.
func (s *Server) WriteKubeconfig(path string) error {
	return clientcmd.WriteToFile(*kubeconfig(s.url, s.authority), path)
}

// Close ends all connections.
func (s *Server) Close() error {
	err := s.server.Close()
	s.served.Wait()
	return err
}

// Stats says how far the server and its clients are.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{Head: s.history.now(), Watches: len(s.watches), Listed: s.listed.Load(), Sent: s.sent.Load(), Unknown: make(map[string]int)}
	for w := range s.watches {
		stats.Behind = max(stats.Behind, stats.Head-min(stats.Head, w.at.Load()))
	}
	maps.Copy(stats.Unknown, s.unknown)
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	stats.LeaseReads, stats.LeaseWrites = s.lease.reads, s.lease.writes
	return stats
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.options.Corpus
	namespace, resource := split(r.URL.Path, c.Resource.Group, c.Resource.Version)
	watching := r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1"
	switch {
	case resource == c.Resource.Resource && watching:
		s.watch(w, r, namespace)
	case resource == c.Resource.Resource:
		s.list(w, r, namespace)
	case s.serveKind(w, r), s.serveLease(w, r):
	case s.discover(w, r):
	case isEmpty(r.URL.Path) && watching:
		s.watchNothing(w, r)
	case isEmpty(r.URL.Path):
		s.listNothing(w)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		w.WriteHeader(http.StatusCreated)
		writeJSON(w, map[string]any{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": map[string]any{"allowed": true}})
	default:
		s.notFound(w, r.URL.Path)
	}
}

// split takes a path apart: the namespace, "" for all, and the resource. The
// resource is "" for what is of another group or version.
func split(path, group, version string) (namespace, resource string) {
	prefix := "/apis/" + group + "/" + version + "/"
	if group == "" {
		prefix = "/api/" + version + "/"
	}
	resource, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return "", ""
	}
	if rest, ok := strings.CutPrefix(resource, "namespaces/"); ok {
		namespace, resource, _ = strings.Cut(rest, "/")
	}
	return namespace, resource
}

func (s *Server) notFound(w http.ResponseWriter, path string) {
	s.mu.Lock()
	s.unknown[path]++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	writeJSON(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Code: http.StatusNotFound,
	})
}

// writeJSON answers with a document. A client that is gone is told nothing.
func writeJSON(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}

// revisionOf reads a resourceVersion; none is 0.
func revisionOf(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errors.New("the resourceVersion is not a number")
	}
	return rv, nil
}
