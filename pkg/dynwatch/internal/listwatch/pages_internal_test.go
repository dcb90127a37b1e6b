package listwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/frame"
	"github.com/informd/informd/pkg/dynwatch/internal/kube"
	"github.com/informd/informd/pkg/dynwatch/internal/podserver"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// sourceOnPipes is a source of Pods whose requests a handler answers, within a bubble of synctest.
func sourceOnPipes(t *testing.T, handler http.HandlerFunc) *Source {
	t.Helper()
	s := podSource(t, podserver.OnPipes(t, handler))
	t.Cleanup(s.Clients.Close)
	return s
}

func podSource(t *testing.T, config *rest.Config) *Source {
	t.Helper()
	c, err := kube.NewClients(config, slog.New(slog.DiscardHandler))
	must(t, err)
	gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	s, err := New(Resource{GVR: gvr, Kind: "Pod", Namespaced: true}, Options{Clients: c})
	must(t, err)
	return s
}

// TestComparisonOutlastsRefusals: one refused request of fifty costs a list of 400 pages
// no page that was read, and the server's delay is honoured.
func TestComparisonOutlastsRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const objects, refusedPages = 200_000, 8
		requests := make(map[string]int)
		s := sourceOnPipes(t, func(w http.ResponseWriter, r *http.Request) {
			next := r.URL.Query().Get("continue")
			requests[next]++
			if from, _ := strconv.Atoi(next); from%(50*PageSize) == 25*PageSize && requests[next] == 1 {
				w.Header().Set("Retry-After", "2")
				http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
				return
			}
			podserver.WritePage(w, r, objects)
		})
		began, count := time.Now(), 0
		rv, err := s.ListMetadata(t.Context(), new(Listing), func(o Listed) error {
			if want := "p" + strconv.Itoa(count); o.Name != want || o.UID != "u"+strconv.Itoa(count) || o.RV != uint64(count)+1 {
				t.Fatalf("object %d is %+v", count, o)
			}
			count++
			return nil
		})
		if err != nil || rv != podserver.Revision || count != objects {
			t.Fatalf("listed %d objects at revision %d: %v", count, rv, err)
		}
		if len(requests) != objects/PageSize || requests[""] != 1 {
			t.Errorf("%d pages were requested, the first %d times", len(requests), requests[""])
		}
		if took := time.Since(began); took < refusedPages*2*time.Second || took > refusedPages*3*time.Second {
			t.Errorf("the list took %v, want %d pauses of 2 s", took, refusedPages)
		}
	})
}

// TestListResumesWithinAPage: an answer that breaks off is read again, and no object of it
// is handed over twice.
func TestListResumesWithinAPage(t *testing.T) {
	for name, list := range map[string]func(ctx context.Context, s *Source, item func(name string) error) (uint64, error){
		"metadata": func(ctx context.Context, s *Source, item func(string) error) (uint64, error) {
			return s.ListMetadata(ctx, new(Listing), func(o Listed) error { return item(o.Name) })
		},
		"objects": func(ctx context.Context, s *Source, item func(string) error) (uint64, error) {
			return s.List(ctx, &Listing{}, s.Frames, func(o *frame.Object, _ *frame.Malformed) error { return item(o.Name) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := make(map[string]bool)
				s := sourceOnPipes(t, func(w http.ResponseWriter, r *http.Request) {
					next := r.URL.Query().Get("continue")
					if next == "" || broken[next] {
						podserver.WritePage(w, r, 1200)
						return
					}
					broken[next] = true
					var b strings.Builder
					podserver.WritePage(&b, r, 1200)
					_, _ = io.WriteString(w, b.String()[:b.Len()/2])
					panic(http.ErrAbortHandler)
				})
				var names []string
				rv, err := list(t.Context(), s, func(name string) error { names = append(names, name); return nil })
				if err != nil || rv != podserver.Revision || len(names) != 1200 || len(broken) != 2 {
					t.Fatalf("listed %d objects at revision %d, %d pages broke off: %v", len(names), rv, len(broken), err)
				}
				slices.Sort(names)
				if len(slices.Compact(names)) != 1200 {
					t.Error("objects were handed over twice")
				}
				mine := errors.New("mine")
				if _, err := list(t.Context(), s, func(string) error { return mine }); !errors.Is(err, mine) {
					t.Errorf("error %v, want the caller's", err)
				}
			})
		})
	}
}

// TestListEndsWhereRepeatingIsNoUse: what a page's second request cannot change is returned
// at once, and the attempts are bounded.
func TestListEndsWhereRepeatingIsNoUse(t *testing.T) {
	for name, test := range map[string]struct {
		code     int
		reason   metav1.StatusReason
		first    bool // the first page fails
		list     Listing
		requests int // with Brief at least
	}{
		"expired token":         {410, metav1.StatusReasonExpired, false, Listing{}, 2},
		"forbidden":             {403, metav1.StatusReasonForbidden, false, Listing{}, 2},
		"not served any more":   {404, metav1.StatusReasonNotFound, false, Listing{}, 2},
		"broken from the start": {500, metav1.StatusReasonInternalError, true, Listing{}, 1},
		"broken on the way":     {500, metav1.StatusReasonInternalError, false, Listing{}, 1 + pageAttempts},
		"busy":                  {429, metav1.StatusReasonTooManyRequests, true, Listing{}, pageAttempts},
		"exact":                 {500, metav1.StatusReasonInternalError, true, Listing{At: 1000}, pageAttempts},
		"a watch waits":         {500, metav1.StatusReasonInternalError, false, Listing{Brief: true}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, requests := time.Now(), 0
				s := sourceOnPipes(t, func(w http.ResponseWriter, r *http.Request) {
					requests++
					if r.URL.Query().Get("continue") == "" && !test.first {
						podserver.WritePage(w, r, 1200)
						return
					}
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(test.code)
					fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, test.code, test.reason)
				})
				_, err := s.List(t.Context(), &test.list, s.Frames, func(*frame.Object, *frame.Malformed) error { return nil })
				// The jitter of the pauses decides whether one more fits into the two seconds of a brief list.
				if apierrors.ReasonForError(err) != test.reason || requests < test.requests || !test.list.Brief && requests > test.requests {
					t.Errorf("%d requests, want %d: %v", requests, test.requests, err)
				}
				if took := time.Since(began); test.list.Brief && took > briefTime {
					t.Errorf("a brief list took %v", took)
				}
			})
		})
	}
}

// TestListWithoutAnEnd: whatever continue tokens a server repeats, the list ends with an error, and the next one begins
// from the beginning.
func TestListWithoutAnEnd(t *testing.T) {
	for name, before := range map[string][2]int{"one token": {0, 1}, "two in turn": {0, 2}, "seven, after 20 others": {20, 7}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests, heals := 0, false
				s := sourceOnPipes(t, func(w http.ResponseWriter, r *http.Request) {
					requests++
					heals = heals || requests > 200
					token, _ := strconv.Atoi(r.URL.Query().Get("continue"))
					if token++; token > before[0]+before[1] {
						token = before[0] + 1
					}
					next := strconv.Itoa(token)
					if heals {
						next = ""
					}
					fmt.Fprintf(w, `{"kind":"List","metadata":{"resourceVersion":"7","continue":%q},"items":[]}`, next)
				})
				l := &Listing{}
				take := func(*frame.Object, *frame.Malformed) error { return nil }
				if _, err := s.List(t.Context(), l, s.Frames, take); !errors.Is(err, errEndless) || l.Next != "" {
					t.Fatalf("%d requests, and the next page is %q: %v", requests, l.Next, err)
				}
				heals = true
				if rv, err := s.List(t.Context(), l, s.Frames, take); rv != 7 || err != nil {
					t.Errorf("the next list is of revision %d: %v", rv, err)
				}
			})
		})
	}
}

// TestRetryAfterReachesTheCaller, however the server says it and whatever was asked.
func TestRetryAfterReachesTheCaller(t *testing.T) {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,"reason":"TooManyRequests"}`
	withDetails := strings.Replace(status, `"code"`, `"details":{"retryAfterSeconds":7},"code"`, 1)
	for name, answer := range map[string]struct {
		code                   int
		contentType, after, of string
		want                   time.Duration
	}{
		"text":            {429, "text/plain", "7", "Too many requests, please try again later.", 7 * time.Second},
		"status only":     {429, "application/json", "", withDetails, 7 * time.Second},
		"HTML of a proxy": {503, "text/html", "7", "<html>", 7 * time.Second},
		"a day":           {429, "text/plain", "86400", "", kube.MaxRetryAfter},
		"none":            {500, "text/plain", "", "", 0},
		"no number":       {500, "text/plain", "soon", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sourceOnPipes(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", answer.contentType)
					if answer.after != "" {
						w.Header().Set("Retry-After", answer.after)
					}
					w.WriteHeader(answer.code)
					_, _ = io.WriteString(w, answer.of)
				})
				for request, err := range map[string]error{
					"watch":     second(s.Watch(t.Context(), 1, false)),
					"revision":  second(s.Revision(t.Context())),
					"name":      fourth(s.lookOnce(t.Context(), "a", "x", 0, byName(0, "x"))), // without its repetitions
					"discovery": second(kube.ServedVersions(t.Context(), s.Clients.Discovery, "apps")),
				} {
					if got, ok := kube.SuggestedDelay(err); got != answer.want || ok != (answer.want != 0) {
						t.Errorf("%s: wait %v, %v, want %v (%v)", request, got, ok, answer.want, err)
					}
				}
			})
		})
	}
}

// TestLookUpOutlastsFailures: a comparison looks up hundreds of objects by name. A request
// that fails is made again, up to [lookAttempts] times, unless another one can be no use.
func TestLookUpOutlastsFailures(t *testing.T) {
	for name, test := range map[string]struct {
		code, failures, requests int
		reason                   metav1.StatusReason
	}{
		"unavailable":     {503, lookAttempts - 1, lookAttempts, metav1.StatusReasonServiceUnavailable},
		"for long":        {503, lookAttempts, lookAttempts, metav1.StatusReasonServiceUnavailable},
		"forbidden":       {403, 1, 1, metav1.StatusReasonForbidden},
		"not found":       {404, 1, 1, metav1.StatusReasonNotFound},
		"expired history": {410, 1, 1, metav1.StatusReasonExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				s := sourceOnPipes(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					if requests++; requests <= test.failures {
						w.WriteHeader(test.code)
						fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, test.code, test.reason)
						return
					}
					fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"7"},"items":[]}`)
				})
				_, there, err := s.ObjectAt(t.Context(), "a", "x", 7)
				if failed := test.failures >= test.requests; there || failed != (err != nil) || requests != test.requests {
					t.Errorf("%d requests, want %d: %t, %v", requests, test.requests, there, err)
				}
			})
		})
	}
}

// TestListWithExpiredToken: a server needs longer for all pages than a continue token lasts.
// Larger pages let a later list come to its end.
func TestListWithExpiredToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods, lasts = 200_000, 5 * time.Minute
		var began time.Time
		s := sourceOnPipes(t, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(3 * time.Second)
			switch {
			case r.URL.Query().Get("continue") == "":
				began = time.Now()
			case time.Since(began) > lasts:
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusGone)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}`)
				return
			}
			podserver.WritePage(w, r, pods)
		})
		for attempts := 1; ; attempts++ {
			count := 0
			_, err := s.ListMetadata(t.Context(), new(Listing), func(Listed) error { count++; return nil })
			switch {
			case err == nil && count == pods:
				return
			case !Expired(err), attempts == 1+maxGrowth:
				t.Fatalf("attempt %d: %d objects, %v", attempts, count, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

func fourth[T, U, V any](_ T, _ U, _ V, err error) error { return err }
