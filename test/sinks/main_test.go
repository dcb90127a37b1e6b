// Package sinks_test holds the sinks that need a real server to the contract.
package sinks_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
