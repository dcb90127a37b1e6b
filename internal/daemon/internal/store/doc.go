// Package store opens the journal of a config. It makes sure that the journal is that of the cluster,
// and knows which failure only a restart resolves.
package store
