// Package reconcile recovers history that the API server no longer has: from another API
// server, from etcd's old revisions, or from a list. It declares the rest as a gap.
package reconcile
