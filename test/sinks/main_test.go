// Package sinks_test holds the sinks that need a real server to the contract.
package sinks_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
)

// must ends a test that one of some errors leaves nothing to check in.
func must(tb testing.TB, errs ...error) {
	tb.Helper()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
