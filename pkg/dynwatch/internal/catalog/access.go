package catalog

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// reviewPath takes a SelfSubjectAccessReview, which by default everyone may send
// who has logged in.
const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// NeededVerbs are all that is done to a resource that is watched: look-ups by name are lists.
func NeededVerbs() []string { return []string{"list", "watch"} }

// accessReview is a SelfSubjectAccessReview, whose type would bring in the whole of
// k8s.io/api.
type accessReview struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Spec       accessReviewSpec   `json:"spec"`
	Status     accessReviewStatus `json:"status"`
}

type accessReviewSpec struct {
	ResourceAttributes Attributes `json:"resourceAttributes"`
}

// Attributes are a resource, and what is done to it. A namespace or a name that is empty stands
// for all of them.
type Attributes struct {
	Namespace     string   `json:"namespace,omitempty"`
	Verb          string   `json:"verb"`
	Group         string   `json:"group,omitempty"`
	Version       string   `json:"version,omitempty"`
	Resource      string   `json:"resource"`
	Name          string   `json:"name,omitempty"`
	FieldSelector Selector `json:"fieldSelector,omitzero"`
	LabelSelector Selector `json:"labelSelector,omitzero"`
}

// Selector is one as in a request. API servers before Kubernetes 1.31 do not read it.
type Selector struct {
	Raw string `json:"rawSelector"`
}

// AttributesOf returns what is asked about a resource in the whole cluster.
func AttributesOf(r schema.GroupVersionResource) Attributes {
	return Attributes{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

type accessReviewStatus struct {
	Allowed bool `json:"allowed"`
}

// MissingVerbs asks the API server which of these verbs the credentials lack for a resource.
func MissingVerbs(ctx context.Context, client rest.Interface, of Attributes, verbs []string) ([]string, error) {
	var missing []string
	for _, verb := range verbs {
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

func allows(ctx context.Context, client rest.Interface, what Attributes) (bool, error) {
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
