// Package jsonscan checks JSON against its grammar in one pass over the bytes, and notes what to
// drop. It decodes nothing but the keys that its callers look at, and knows no
// Kubernetes object.
package jsonscan
