package kafka

import (
	"slices"
	"testing"
)

// TestTopicWithoutID: a topic of a broker without ids is a destination by its name, so that the sink
// notices when it comes and when it goes. An id that is not known for once changes nothing.
func TestTopicWithoutID(t *testing.T) {
	var found []string
	s := &producer{ids: make(map[string]topicID), found: func(identity string) { found = append(found, identity) }}
	s.identify("k8s", topicID{})
	s.identify("k8s", topicID{15: 1})
	s.identify("k8s", topicID{})
	if want := []string{"k8s", "k8s 00000000000000000000000000000001"}; !slices.Equal(found, want) {
		t.Errorf("identities %q, want %q", found, want)
	}
}
