// Package namespaces follows the namespaces that a target selects. When one is matched or
// unmatched, it emits the objects that enter or leave, at one point of the target's stream.
package namespaces
