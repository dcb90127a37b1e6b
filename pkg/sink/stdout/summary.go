package stdout

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// outline is the little that the summary reads of an object, of whatever kind.
// It follows the conventions of the Kubernetes API, which custom resources
// mostly keep to.
type outline struct {
	Metadata struct {
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Replicas *int64 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Phase         string `json:"phase"`
		ReadyReplicas int64  `json:"readyReplicas"`
		// What a DaemonSet has in place of replicas.
		DesiredNumberScheduled *int64      `json:"desiredNumberScheduled"`
		NumberReady            int64       `json:"numberReady"`
		Conditions             []condition `json:"conditions"`
		ContainerStatuses      []container `json:"containerStatuses"`
	} `json:"status"`
	// What a core Event has.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

type container struct {
	Ready        bool  `json:"ready"`
	RestartCount int64 `json:"restartCount"`
	State        struct {
		Waiting *struct {
			Reason string `json:"reason"`
		} `json:"waiting"`
	} `json:"state"`
}

// summary says in a few words how the object is, as far as it says so in the
// ways that Kubernetes objects usually do; "" if it does not. The result may
// hold any character.
func summary(object []byte) string {
	if len(object) == 0 {
		return ""
	}
	var o outline
	// A field of another type than expected is as good as absent, and
	// Unmarshal reads the others all the same: the error is of no interest.
	_ = json.Unmarshal(object, &o)
	var words []string
	if o.Metadata.DeletionTimestamp != "" {
		words = append(words, "terminating")
	}
	switch {
	case o.Status.ContainerStatuses != nil:
		words = append(words, ofContainers(&o))
	case o.Status.Phase != "":
		words = append(words, short(o.Status.Phase))
	case o.Spec.Replicas != nil:
		words = append(words, fmt.Sprintf("%d/%d ready", o.Status.ReadyReplicas, *o.Spec.Replicas))
	case o.Status.DesiredNumberScheduled != nil:
		words = append(words, fmt.Sprintf("%d/%d ready", o.Status.NumberReady, *o.Status.DesiredNumberScheduled))
	case o.Reason != "":
		words = append(words, short(strings.TrimSuffix(o.Reason+": "+o.Message, ": ")))
	default:
		words = append(words, ofCondition(o.Status.Conditions)...)
	}
	return strings.Join(words, ", ")
}

// ofContainers is a Pod's phase, or what its first waiting container waits for,
// and how many containers are ready.
func ofContainers(o *outline) string {
	state, ready, restarts := o.Status.Phase, 0, int64(0)
	waiting := false
	for _, c := range o.Status.ContainerStatuses {
		if c.Ready {
			ready++
		}
		restarts += c.RestartCount
		if w := c.State.Waiting; w != nil && w.Reason != "" && !waiting {
			state, waiting = w.Reason, true
		}
	}
	text := fmt.Sprintf("%s %d/%d ready", short(state), ready, len(o.Status.ContainerStatuses))
	switch restarts {
	case 0:
		return text
	case 1:
		return text + ", 1 restart"
	default:
		return fmt.Sprintf("%s, %d restarts", text, restarts)
	}
}

// ofCondition is the Ready condition in words.
func ofCondition(all []condition) []string {
	for _, c := range all {
		if c.Type != "Ready" {
			continue
		}
		switch c.Status {
		case "True":
			return []string{"ready"}
		case "False":
			return []string{strings.TrimSuffix("not ready: "+short(c.Reason), ": ")}
		default:
			return []string{"readiness unknown"}
		}
	}
	return nil
}

// short keeps a text that anybody may have written from filling the screen.
func short(s string) string {
	const limit = 80
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}
