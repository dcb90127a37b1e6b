package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/informd/informd/pkg/event"
)

// command appends XADD <stream> * id <id> event <JSON> as Redis reads it.
func (o *options) command(to []byte, e *event.Event) []byte {
	to = fmt.Appendf(to, "*7\r\n")
	for _, word := range []string{"XADD", o.Stream, "*", "id", e.ID, "event", string(e.AppendJSON(nil))} {
		to = fmt.Appendf(to, "$%d\r\n%s\r\n", len(word), word)
	}
	return to
}

// redis is an open sink. A failed write costs the connection.
type redis struct {
	options

	conn    net.Conn // nil if there is none
	replies *bufio.Reader
}

// Write implements [sink.Sink]: one transaction, sent at once. Without it, Redis would go on with the commands
// behind a refused one, and after those of the next Write, too.
func (r *redis) Write(ctx context.Context, batch []event.Event) (int, error) {
	if err := ctx.Err(); err != nil || len(batch) == 0 {
		return 0, err
	}
	attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := r.add(attempt, batch); err != nil { // the next Write connects again
		return 0, errors.Join(ctx.Err(), fmt.Errorf("redis at %s: %w", r.Address, err), r.Close(ctx))
	}
	return len(batch), nil
}

func (r *redis) add(ctx context.Context, batch []event.Event) error {
	if r.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.Address)
		if err != nil {
			return err
		}
		r.conn, r.replies = conn, bufio.NewReader(conn)
	}
	conn, commands := r.conn, []byte("MULTI\r\n")
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	for i := range batch {
		commands = r.command(commands, &batch[i])
	}
	if _, err := conn.Write(append(commands, "EXEC\r\n"...)); err != nil {
		return err
	}
	// Lines: OK, QUEUED for each command, then the number of the ids, and for each its length and itself.
	for range 2 + 3*len(batch) {
		line, err := r.replies.ReadString('\n')
		if err == nil && line[0] == '-' {
			err = errors.New(strings.TrimSpace(line)) // full or read-only: that passes
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Close implements [sink.Sink].
func (r *redis) Close(context.Context) error {
	if r.conn != nil {
		_ = r.conn.Close() // nothing waits to be sent
	}
	r.conn = nil
	return nil
}
