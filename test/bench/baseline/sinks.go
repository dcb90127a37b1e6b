package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/informd/informd/test/bench/progress"
)

// sink takes messages one at a time.
type sink interface {
	send(m message) error
}

// openSink opens the sink that the options name. It counts what it has delivered.
func openSink(o options, counters *progress.Counters) (sink, error) {
	c := counter{counters}
	switch o.sink {
	case "none":
		return nowhere{c}, nil
	case "stdout":
		return &output{counter: c, w: bufio.NewWriterSize(os.Stdout, 64<<10)}, nil
	case "nats":
		conn, err := nats.Connect(o.url, nats.MaxReconnects(-1))
		return &core{c, conn}, err
	default:
		return nil, fmt.Errorf("no sink %q", o.sink)
	}
}

// counter counts what was delivered.
type counter struct{ counters *progress.Counters }

func (c counter) count(m message) {
	if m.operation == added {
		c.counters.Objects.Add(1)
	} else {
		c.counters.Updates.Add(1)
	}
}

// nowhere drops what it is sent.
type nowhere struct{ counter }

func (s nowhere) send(m message) error {
	s.count(m)
	return nil
}

// output writes lines, and flushes each: the next event may not come for long.
type output struct {
	counter

	w *bufio.Writer
}

func (s *output) send(m message) error {
	if _, err := s.w.Write(append(m.body, '\n')); err != nil {
		return err
	}
	s.count(m)
	return s.w.Flush()
}

// core publishes without acknowledgement.
type core struct {
	counter

	conn *nats.Conn
}

func (s *core) send(m message) error {
	s.count(m)
	return s.conn.Publish(m.subject, m.body)
}
