package server

import (
	"context"
	"fmt"

	js "github.com/nats-io/nats.go/jetstream"
)

// StorageError says that the server cannot reserve what journal.maxBytes asks for.
type StorageError struct {
	Stream string
	// Wanted is journal.maxBytes.
	Wanted int64
	// Account describes what the account has, empty if the server does not say.
	Account string
	Err     error
}

func (e *StorageError) Error() string {
	return fmt.Sprintf("stream %s cannot be created: the server cannot reserve journal.maxBytes, %d bytes (%s): %v%s; "+
		"lower journal.maxBytes, or raise the server's max_file_store or the account's limit",
		e.Stream, e.Wanted, inGiB(e.Wanted), e.Err, e.Account)
}

func (e *StorageError) Unwrap() error { return e.Err }

func inGiB(n int64) string { return fmt.Sprintf("%.3g GiB", float64(n)/(1<<30)) }

// TooLarge makes the error with what the server says of the account.
func TooLarge(ctx context.Context, client js.JetStream, wanted js.StreamConfig, err error) error {
	e := &StorageError{Stream: wanted.Name, Wanted: wanted.MaxBytes, Err: err}
	if account, err := client.AccountInfo(ctx); err == nil {
		limit := "no limit"
		if account.Limits.MaxStore > 0 {
			limit = fmt.Sprintf("a limit of %d bytes (%s)", account.Limits.MaxStore, inGiB(account.Limits.MaxStore))
		}
		e.Account = fmt.Sprintf(" (the account has %s, %d bytes of it used, %d reserved)", limit, account.Store, account.ReservedStore)
	}
	return e
}
