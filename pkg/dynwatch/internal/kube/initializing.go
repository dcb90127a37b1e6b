package kube

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsInitializing reports whether the watch cache of a resource is not filled yet.
func IsInitializing(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusTooManyRequests &&
		strings.Contains(status.Status().Message, "initializing")
}
