package dynwatch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// What the credentials lack is asked for at the start of every target: that they do
// not allow to watch would otherwise come out after the first list, and what the API
// server then says names one verb of two and no way out.

const (
	// reviewTimeout bounds the asking about one target.
	reviewTimeout = 30 * time.Second
	// reviewAgain is the time between two attempts.
	reviewAgain = time.Minute
	// reviewPath takes a SelfSubjectAccessReview, which by default everyone may send
	// who has logged in.
	reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	// anyNamespace stands for all namespaces in a log: no namespace can have it for
	// a name.
	anyNamespace = "*"
)

// neededVerbs are all that is done to a resource: look-ups by name are lists.
func neededVerbs() []string { return []string{"list", "watch"} }

// accessReview is a SelfSubjectAccessReview, whose type would bring in the whole of
// k8s.io/api.
type accessReview struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Spec       accessReviewSpec   `json:"spec"`
	Status     accessReviewStatus `json:"status"`
}

type accessReviewSpec struct {
	ResourceAttributes resourceAttributes `json:"resourceAttributes"`
}

type resourceAttributes struct {
	Namespace string `json:"namespace,omitempty"`
	Verb      string `json:"verb"`
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"`
	Resource  string `json:"resource"`
}

// attributes are what is asked about a spec's own resource.
func (s spec) attributes() resourceAttributes {
	return resourceAttributes{Namespace: s.namespace, Group: s.group, Version: s.version, Resource: s.resource}
}

// attributesOf are what is asked about a resource in the whole cluster.
func attributesOf(r schema.GroupVersionResource) resourceAttributes {
	return resourceAttributes{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

type accessReviewStatus struct {
	Allowed bool `json:"allowed"`
}

// missingVerbs asks the API server which verbs the credentials lack for a resource.
func missingVerbs(ctx context.Context, client rest.Interface, of resourceAttributes) ([]string, error) {
	var missing []string
	for _, verb := range neededVerbs() {
		of.Verb = verb
		allowed, err := allows(ctx, client, of)
		if err != nil {
			return nil, fmt.Errorf("review access to %s: %w", verb, err)
		}
		if !allowed {
			missing = append(missing, verb)
		}
	}
	return missing, nil
}

func allows(ctx context.Context, client rest.Interface, what resourceAttributes) (bool, error) {
	review := accessReview{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
	review.Spec.ResourceAttributes = what
	question, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	answer, err := client.Post().MaxRetries(0).AbsPath(reviewPath).SetHeader("Content-Type", "application/json").Body(question).DoRaw(ctx)
	if err != nil {
		return false, err
	}
	review.Status = accessReviewStatus{}
	if err := json.Unmarshal(answer, &review); err != nil {
		return false, fmt.Errorf("decode answer: %w", err)
	}
	return review.Status.Allowed, nil
}

// reviewAccess says which permissions the target lacks, as soon as the API server
// answers. It only tells: what the target may do shows when it does it. It runs
// beside the loop, of which it touches the status alone, and ends with ctx.
func (t *target) reviewAccess(ctx context.Context, r *reviews) {
	for !t.review(ctx, r) {
		select {
		case <-time.After(reviewAgain):
		case <-ctx.Done():
			return
		}
	}
}

// review is one attempt at it, once it is the target's turn.
func (t *target) review(ctx context.Context, r *reviews) (answered bool) {
	end, ok := r.begin(ctx)
	if !ok {
		return false
	}
	defer end()
	limited, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if r.allowsAll(limited, t.clients.Discovery.Client, t.spec.attributes()) {
		return true
	}
	missing, err := missingVerbs(limited, t.clients.Discovery.Client, t.spec.attributes())
	if err != nil {
		t.logger.Debug("permissions not checked", "err", err)
		return false
	}
	if t.status.setMissing(missing) {
		t.logger.Error("permissions missing; apply the output of `informd rbac`",
			"verbs", missing, "namespace", cmp.Or(t.spec.namespace, anyNamespace))
	}
	return true
}
