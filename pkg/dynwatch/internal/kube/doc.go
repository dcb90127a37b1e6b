// Package kube holds the connections to the API server and the rules for requests over them:
// clients and their connections ([Clients]), discovery documents ([Discovery]), the identity
// of the cluster ([Identity]), the limits on requests of all targets together, Retry-After,
// and the end of requests that stall ([Guard]). It knows no target, no event and no index.
package kube
