package kube

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsServerFault reports whether the API server answered that it cannot serve the resource.
func IsServerFault(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= http.StatusInternalServerError || IsInitializing(err)
}

// IsInitializing reports whether the watch cache of a resource is not filled yet.
func IsInitializing(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusTooManyRequests &&
		strings.Contains(status.Status().Message, "initializing")
}
