package informertest_test

import (
	"testing"

	"github.com/informd/informd/pkg/informer/informertest"
)

// TestWrongFaultsPanic: a test with such a fault would pass without it.
func TestWrongFaultsPanic(t *testing.T) {
	for name, fault := range map[string]informertest.Fault{
		"unknown verb": {Verb: "WATCH", Code: 500},
		"no error":     {Code: 200},
		"no effect":    {Verb: informertest.List},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			informertest.New().Inject(fault)
		})
	}
}
