package store

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// usablePoll is how often an operator's command asks for the state of the journal that
	// it needs, and unusableFor how long the journal may fail before the command ends.
	usablePoll  = 500 * time.Millisecond
	unusableFor = 10 * time.Second
)

// problem says why the journal cannot be used, empty if it can.
func (s *Store) problem() string {
	if s.relay.Load() == nil || s.State == nil {
		return ""
	}
	_, reason := s.State()
	return reason
}

// Unusable reports whether informd is not ready, as the journal keeps nothing.
func (s *Store) Unusable() bool {
	return s.problem() != "" || s.removed != nil && s.removed()
}

// WhileUsable returns a context that ends when the journal cannot be used for some time:
// its cause says why. Release gives it back. A journal that cannot be used now is an error.
func (s *Store) WhileUsable(ctx context.Context) (usable context.Context, release func(), err error) {
	if reason := s.problem(); reason != "" {
		return nil, nil, unusableError(reason)
	}
	usable, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		since := time.Now()
		wait.UntilWithContext(usable, func(context.Context) {
			if reason := s.problem(); reason == "" {
				since = time.Now()
			} else if time.Since(since) >= unusableFor {
				cancel(unusableError(reason))
			}
		}, usablePoll)
	}()
	return usable, func() {
		cancel(nil)
		<-ended
	}, nil
}

func unusableError(reason string) error {
	return fmt.Errorf("the journal cannot be used: %s; see informd status and the log", reason)
}
