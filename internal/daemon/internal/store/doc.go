// Package store opens the journal of a config (log, memory or nats) with everything below
// it: the connection and the lease. It knows whether the journal
// can be used now, and which failure only a restart resolves.
package store
