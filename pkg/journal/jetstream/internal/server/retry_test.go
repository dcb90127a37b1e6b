package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/informd/informd/pkg/journal/jetstream/internal/server"
)

// TestRetryUnbounded: a deadline of the caller ends the work, and is not the bound of each request in it.
func TestRetryUnbounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := server.RetryUnbounded(ctx, new(server.Outage), func(ctx context.Context) error {
			if end, ok := ctx.Deadline(); ok {
				t.Errorf("the work has a deadline, %v", end)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("%v after %v, want that the deadline is exceeded after a minute", err, took)
		}
	})
}
