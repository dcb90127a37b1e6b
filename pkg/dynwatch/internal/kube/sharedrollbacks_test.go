package kube_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

func TestRollbacks(t *testing.T) {
	c, err := kube.NewClients(&rest.Config{Host: "https://api.invalid"}, slog.New(slog.DiscardHandler))
	must(t, err)
	r := c.Rollbacks
	head := uint64(100)
	restored := func(context.Context) (uint64, error) {
		head++
		return head, nil
	}
	far := func(context.Context) (uint64, error) { return 5_000, nil }
	refused, stopped := errors.New("refused"), errors.New("stopped")
	failing := func(err error) kube.Head { return func(context.Context) (uint64, error) { return 0, err } }
	found := func(known uint64, own kube.Head) (bool, error) { return r.FoundAfter(t.Context(), known, own) }

	if is, err := found(0, failing(refused)); is || err != nil {
		t.Errorf("before the first one: %t, %v", is, err)
	}
	_, next := r.Last()
	if !r.Add("a", 0, restored) || r.Add("b", 0, restored) {
		t.Error("two targets have added one rollback")
	}
	select {
	case <-next:
	default:
		t.Error("the channel is open")
	}
	number, _ := r.Last()
	for name, one := range map[string]struct {
		known uint64
		own   kube.Head
		is    bool
		err   error
	}{
		"the same store":     {0, restored, true, nil},
		"another store":      {0, far, false, nil},
		"already considered": {number, restored, false, nil},
		"no own revision":    {0, failing(stopped), false, stopped},
	} {
		if is, err := found(one.known, one.own); is != one.is || !errors.Is(err, one.err) {
			t.Errorf("%s: %t, %v", name, is, err)
		}
	}

	// The resource that has found it answers no more.
	if !r.Add("a", number, failing(refused)) {
		t.Error("a second rollback was not added")
	}
	if is, err := found(number, far); !is || err != nil {
		t.Errorf("without an answer: %t, %v", is, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := r.FoundAfter(ended, number, far); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end: %v", err)
	}
}
