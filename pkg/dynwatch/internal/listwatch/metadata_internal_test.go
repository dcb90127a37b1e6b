package listwatch

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/pkg/dynwatch/internal/kube"
)

// deniedUser takes a refusal for something that lasts, as the watches of definitions and of Namespaces do.
type deniedUser struct{ MetadataUser }

func (deniedUser) Failed(err error) bool { return apierrors.IsForbidden(err) }

// TestRefusalAfterAnOutage: an API server that has just started refuses everything for a moment. After an outage
// the pause is not one of those between many refusals: meanwhile nobody would notice what is installed.
func TestRefusalAfterAnOutage(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", nil)
	unavailable := apierrors.NewInternalError(kube.ErrNotServed)
	m := &MetadataWatch{User: deniedUser{}, timing: Timing{
		Backoff: 200 * time.Millisecond, BackoffCap: 30 * time.Second, WaitingCap: 5 * time.Second, DeniedCap: 5 * time.Minute,
	}}
	m.resetPause()
	for range 20 {
		if d := m.fail(unavailable); d > m.timing.BackoffCap {
			t.Fatalf("the pause of an outage is %v", d)
		}
	}
	if d := m.fail(forbidden); d != m.timing.WaitingCap {
		t.Errorf("the pause after one refusal is %v, want %v", d, m.timing.WaitingCap)
	}
	for range 20 {
		m.fail(forbidden)
	}
	if d := m.fail(forbidden); d != m.timing.DeniedCap {
		t.Errorf("the pause after many refusals is %v, want %v", d, m.timing.DeniedCap)
	}
	if d := m.fail(unavailable); d > time.Second {
		t.Errorf("the pause after the first other error is %v", d)
	}
}
