package kafka

import (
	"errors"
	"fmt"
	"strings"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
)

const (
	// maxTopic is Kafka's limit for the name of a topic.
	maxTopic      = 249
	maxPartitions = 10_000
	maxReplicas   = 100

	// noGroup is the group of an event without a resource. No API group has that
	// name: groups are DNS names.
	noGroup = "_informd"
)

// pattern makes the name of an event's topic: literal text and placeholders take
// turns, beginning and ending with text.
type pattern []string

// parsePattern takes the value of topic apart.
func parsePattern(topic string) (pattern, error) {
	if topic == "" {
		return nil, errors.New("is required: the name of a topic, as in k8s-events, or a pattern, as in k8s.{cluster}.{group}.{resource}")
	}
	var p pattern
	for rest := topic; ; {
		text, behind, found := strings.Cut(rest, "{")
		if strings.ContainsFunc(text, badInTopic) {
			return nil, fmt.Errorf("%q is not a topic name: letters, digits, '.', '_' and '-' only, and {cluster}, {group} and {resource}", topic)
		}
		p = append(p, text)
		if !found {
			break
		}
		name, behind, closed := strings.Cut(behind, "}")
		if !closed || name != "cluster" && name != "group" && name != "resource" {
			return nil, fmt.Errorf("%q has a placeholder that is none of {cluster}, {group} and {resource}", topic)
		}
		p, rest = append(p, name), behind
	}
	if len(p) == 1 {
		if err := checkTopic(topic); err != nil {
			return nil, fmt.Errorf("%q %w", topic, err)
		}
	}
	return p, nil
}

// single reports whether all events of a cluster have the same topic.
func (p pattern) single() bool {
	for i := 1; i < len(p); i += 2 {
		if p[i] != "cluster" {
			return false
		}
	}
	return true
}

// topicOf returns the name of the event's topic, or a permanent error if Kafka
// would not have it.
func (p pattern) topicOf(e *event.Event) (string, error) {
	group, resource := event.GroupOrCore(e.Group), e.Resource
	if resource == "" {
		group, resource = noGroup, string(e.Op)
	}
	var b strings.Builder
	for i, part := range p {
		if i%2 == 1 {
			part = map[string]string{"cluster": e.Cluster, "group": group, "resource": resource}[part]
			if part == "" || strings.ContainsFunc(part, badInTopic) {
				return "", sink.Permanent(fmt.Errorf("%q cannot be part of a topic name: letters, digits, '.', '_' and '-' only", part))
			}
		}
		b.WriteString(part)
	}
	if err := checkTopic(b.String()); err != nil {
		return "", sink.Permanent(fmt.Errorf("topic %q %w", b.String(), err))
	}
	return b.String(), nil
}

// checkTopic holds a name of allowed characters to the rest of Kafka's rules.
func checkTopic(name string) error {
	switch {
	case name == "." || name == "..":
		return errors.New("is not a topic name")
	case len(name) > maxTopic:
		return fmt.Errorf("has %d characters, the limit of a topic name is %d", len(name), maxTopic)
	}
	return nil
}

func badInTopic(r rune) bool {
	alphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !alphanumeric && !strings.ContainsRune("._-", r)
}
