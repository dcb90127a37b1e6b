// Package sinks_test holds the sinks that need a real server to the contract.
package sinks_test

import (
	"testing"

	"go.uber.org/goleak"
)

// must ends a test that an error leaves nothing to check in.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
