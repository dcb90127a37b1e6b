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

// Write implements [sink.Sink]: one command per event, all at once, and one answer to each.
func (r *redis) Write(ctx context.Context, batch []event.Event) (int, error) {
	if err := ctx.Err(); err != nil || len(batch) == 0 {
		return 0, err
	}
	attempt, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	n, err := r.add(attempt, batch)
	if err != nil { // the next Write connects again
		err = errors.Join(ctx.Err(), fmt.Errorf("redis at %s: %w", r.Address, err), r.Close(ctx))
	}
	return n, err
}

func (r *redis) add(ctx context.Context, batch []event.Event) (n int, err error) {
	if r.conn == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.Address)
		if err != nil {
			return 0, err
		}
		r.conn, r.replies = conn, bufio.NewReader(conn)
	}
	conn, commands := r.conn, []byte(nil)
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	for i := range batch {
		commands = r.command(commands, &batch[i])
	}
	if _, err := conn.Write(commands); err != nil {
		return 0, err
	}
	for ; n < len(batch); n++ { // the answer is $<length>, and the id in the stream
		first, err := r.replies.ReadString('\n')
		if err == nil && first[0] != '$' {
			return n, errors.New(strings.TrimSpace(first)) // full or read-only: that passes
		} else if _, err2 := r.replies.ReadString('\n'); err != nil || err2 != nil {
			return n, errors.Join(err, err2)
		}
	}
	return n, nil
}

// Close implements [sink.Sink].
func (r *redis) Close(context.Context) error {
	if r.conn != nil {
		_ = r.conn.Close() // nothing waits to be sent
	}
	r.conn = nil
	return nil
}
