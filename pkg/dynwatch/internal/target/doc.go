// Package target is the state machine of one target: restore, resolve, list, watch, recover.
// Its loop calls the parts of the target, which do not know it.
package target
