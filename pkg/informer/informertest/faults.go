package informertest

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Verbs of requests.
const (
	// List is a request for the first page of a list.
	List = "list"
	// Page is a request for a further page of a list.
	Page = "page"
	// Watch is a watch.
	Watch = "watch"
	// Get is a request for one object.
	Get = "get"
	// Discovery is a request for the groups or resources that are served.
	Discovery = "discovery"
)

// Fault changes the answers to requests, see [Cluster.Inject]. Its conditions are Verb and Resource;
// the zero value of both matches all requests.
type Fault struct {
	// Verb is one of the constants. Resource is that of the request; for discovery its group counts.
	Verb     string
	Resource schema.GroupResource
	// Times is the number of requests that the fault changes, or of frames for Cut and Twice of a
	// watch. 0 is no limit.
	Times int
	// Code refuses requests with this HTTP status, and with a Status object as API servers send it.
	// RetryAfter, in whole seconds, is sent with it if it is not 0.
	Code       int
	RetryAfter time.Duration
	// Hold delays requests, and the frames of open watches, until it is closed. Times does not
	// count frames that wait.
	Hold <-chan struct{}
	// Cut ends the body of a list, or the next frame of a watch, in its middle.
	Cut bool
	// Twice sends each frame of a watch twice.
	Twice bool
}

func (f *Fault) check() {
	switch {
	case !slices.Contains([]string{"", List, Page, Watch, Get, Discovery}, f.Verb):
		panic(fmt.Sprintf("informertest: verb %q is unknown; use a constant of the package", f.Verb))
	case f.Code != 0 && f.Code < http.StatusBadRequest:
		panic(fmt.Sprintf("informertest: code %d is no error", f.Code))
	case f.Code == 0 && f.Hold == nil && !f.Cut && !f.Twice:
		panic("informertest: the fault has no effect: set Code, Hold, Cut or Twice")
	}
}

// injected is an active fault.
type injected struct {
	Fault

	left int
}

// matches reports whether the fault concerns a request.
func (f *injected) matches(r *request) bool {
	switch {
	case f.Verb != "" && f.Verb != r.verb:
		return false
	case f.Resource == schema.GroupResource{}:
		return true
	case r.verb == Discovery:
		return f.Resource.Group == r.of.Group
	default:
		return f.Resource == r.of.groupResource()
	}
}

// Inject makes a fault active until remove is called or its Times are over. Faults apply in the
// order of their injection. Remove may be called more than once. A fault with an unknown verb, a
// Code that is no error, or without an effect panics.
func (c *Cluster) Inject(f Fault) (remove func()) {
	f.check()
	one := &injected{Fault: f, left: f.Times}
	if f.Times <= 0 {
		one.left = math.MaxInt
	}
	c.do(func() { c.faults = append(c.faults, one) })
	return func() {
		c.do(func() { c.faults = slices.DeleteFunc(c.faults, func(other *injected) bool { return other == one }) })
	}
}

// fault returns the first fault of a request that has an effect, nil for none. The caller holds the lock.
func (c *Cluster) fault(r *request, has func(*injected) bool) *injected {
	for _, f := range c.faults {
		if f.left > 0 && f.matches(r) && has(f) {
			return f
		}
	}
	return nil
}

func holds(f *injected) bool {
	if f.Hold == nil {
		return false
	}
	select {
	case <-f.Hold:
		return false
	default:
		return true
	}
}

func refuses(f *injected) bool { return f.Code != 0 }
func cuts(f *injected) bool    { return f.Cut }
func doubles(f *injected) bool { return f.Twice }

// Compact forgets the history before the newest revision, as etcd does: older watches, exact lists
// and continue tokens expire with 410. Open watches continue.
func (c *Cluster) Compact() { c.do(func() { c.store.compacted = c.store.rev }) }

// Rollback restores the state of an earlier revision, as the restore of a backup of etcd does. All
// watches end. Later revisions are used again. Which resources are served does not change.
func (c *Cluster) Rollback(revision uint64) {
	c.do(func() {
		if revision > c.store.rev {
			panic("informertest: rollback to a later revision")
		}
		c.store.rollBack(revision)
		c.disconnect(nil)
	})
}

// Disconnect ends the open watches of some resources, or all watches without an argument.
func (c *Cluster) Disconnect(resources ...schema.GroupResource) {
	c.do(func() { c.disconnect(resources) })
}

func (c *Cluster) disconnect(resources []schema.GroupResource) {
	for w := range c.watches {
		if len(resources) == 0 || slices.Contains(resources, w.of.groupResource()) {
			w.ended = true
		}
	}
}

// Outage ends all watches, calls change, and lets all requests wait until it has returned. Clients
// see the changes in between after their next request only. With [Cluster.Compact] in
// between, only a list shows them.
func (c *Cluster) Outage(change func()) {
	c.do(func() {
		c.outages++
		c.disconnect(nil)
	})
	defer c.do(func() { c.outages-- })
	change()
}

// Bookmarks switches the bookmarks that follow each change at once. It is on at the start. Without
// them, watches get those of [Cluster.Bookmark] only.
func (c *Cluster) Bookmarks(on bool) { c.do(func() { c.silent = !on }) }

// Bookmark sends a bookmark to all open watches that allow bookmarks.
func (c *Cluster) Bookmark() {
	c.do(func() {
		for w := range c.watches {
			w.bookmark = true
		}
	})
}

// PageLimit is the largest number of objects per page of a list, whatever the client asks for. 0 is
// no limit.
func (c *Cluster) PageLimit(objects int) { c.do(func() { c.pageLimit = objects }) }

// status returns a Status as API servers send it.
func status(code int, message string, retryAfter time.Duration) *metav1.Status {
	reasons := map[int]metav1.StatusReason{
		http.StatusBadRequest: metav1.StatusReasonBadRequest, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
		http.StatusMethodNotAllowed: metav1.StatusReasonMethodNotAllowed, http.StatusGone: metav1.StatusReasonExpired,
		http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
		http.StatusGatewayTimeout: metav1.StatusReasonTimeout,
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reasons[code], Message: message, Details: &metav1.StatusDetails{RetryAfterSeconds: int32(seconds(retryAfter))},
	}
}

// seconds rounds up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

func refusal(code int, message string, retryAfter time.Duration) *http.Response {
	answer := answerJSON(code, status(code, message, retryAfter))
	if retryAfter > 0 {
		answer.Header.Set("Retry-After", strconv.Itoa(seconds(retryAfter)))
	}
	return answer
}
