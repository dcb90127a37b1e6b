package sink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/informd/informd/pkg/sink"
)

func TestErrorMarks(t *testing.T) {
	base := io.ErrUnexpectedEOF
	for name, c := range map[string]struct {
		err       error
		permanent bool
		after     time.Duration
	}{
		"nil":                         {nil, false, 0},
		"plain":                       {base, false, 0},
		"permanent":                   {sink.Permanent(base), true, 0},
		"wrapped permanent":           {fmt.Errorf("write: %w", sink.Permanent(base)), true, 0},
		"permanent twice":             {sink.Permanent(sink.Permanent(base)), true, 0},
		"joined permanent":            {errors.Join(errors.New("other"), sink.Permanent(base)), true, 0},
		"retry after":                 {sink.WithRetryAfter(base, time.Minute), false, time.Minute},
		"wrapped retry after":         {fmt.Errorf("write: %w", sink.WithRetryAfter(base, time.Second)), false, time.Second},
		"the outer retry after wins":  {sink.WithRetryAfter(sink.WithRetryAfter(base, time.Hour), time.Second), false, time.Second},
		"permanent in retry after":    {sink.WithRetryAfter(sink.Permanent(base), time.Second), true, time.Second},
		"retry after in permanent":    {sink.Permanent(sink.WithRetryAfter(base, time.Second)), true, time.Second},
		"permanent of nil":            {sink.Permanent(nil), false, 0},
		"retry after of nil":          {sink.WithRetryAfter(nil, time.Second), false, 0},
		"permanent that says nothing": {sink.Permanent(errors.New("")), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sink.IsPermanent(c.err); got != c.permanent {
				t.Errorf("IsPermanent = %t, want %t", got, c.permanent)
			}
			if got := sink.RetryAfter(c.err); got != c.after {
				t.Errorf("RetryAfter = %v, want %v", got, c.after)
			}
		})
	}
}

// TestErrorsAfterTheEndOfTheContext: such an error has the reason of the context, and the one that was given.
func TestErrorsAfterTheEndOfTheContext(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	closed, own := io.ErrClosedPipe, fmt.Errorf("write: %w", context.Canceled)
	if err := sink.WithContext(t.Context(), closed); err != closed { //nolint:errorlint // the same error
		t.Errorf("before the end: %v", err)
	}
	if err := sink.WithContext(ended, closed); !errors.Is(err, context.Canceled) || !errors.Is(err, closed) {
		t.Errorf("after the end: %v", err)
	}
	for _, same := range []error{nil, own, sink.Permanent(closed)} {
		if err := sink.WithContext(ended, same); err != same { //nolint:errorlint // the same error
			t.Errorf("%v became %v", same, err)
		}
	}
}

func TestMarksOfNothingAreNil(t *testing.T) {
	if sink.Permanent(nil) != nil || sink.WithRetryAfter(nil, time.Second) != nil {
		t.Error("a mark made an error of nil")
	}
}

// TestMarksDoNotHide: the mark neither changes the text nor what errors.Is finds.
func TestMarksDoNotHide(t *testing.T) {
	base := fmt.Errorf("post: %w", io.ErrUnexpectedEOF)
	for name, err := range map[string]error{
		"permanent":   sink.Permanent(base),
		"retry after": sink.WithRetryAfter(base, time.Second),
	} {
		if err.Error() != base.Error() || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v hides %v", name, err, base)
		}
	}
}
