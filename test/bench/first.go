package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// firstHeld is after how many objects the server stops at first.
const firstHeld = 100

// firstPatience is how long the first event may take while the list is held back.
const firstPatience = 10 * time.Second

// firstEvent finds out how much of the list informd needs to have been sent until its
// first event comes out: the server stops after a few objects, then after more.
func (b *bench) firstEvent(ctx context.Context) (err error) {
	server, err := b.startServer(ctx, source{corpus: "pods", objects: b.size(100_000)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	for range b.times(3) {
		for held := firstHeld; ; held *= 10 {
			took, err := b.firstOf(ctx, server, held)
			if errors.Is(err, os.ErrDeadlineExceeded) && held < server.objects {
				continue
			}
			if err != nil {
				return err
			}
			b.firstShares = append(b.firstShares, 100*float64(held)/float64(server.objects))
			b.firstTimes = append(b.firstTimes, took.Seconds()*1e3)
			b.say("the first event came %v after the start, with %d of %d objects sent", took.Round(time.Millisecond), held, server.objects)
			break
		}
	}
	return nil
}

// firstOf starts informd on a list that stops after so many objects, and returns how
// long the first event of an object took.
func (b *bench) firstOf(ctx context.Context, server *server, held int) (took time.Duration, err error) {
	if err := server.tell(ctx, fmt.Sprintf("/hold?objects=%d", held)); err != nil {
		return 0, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close() //nolint:errcheck // nothing is written on this side
	began := time.Now()
	c, err := b.startClient(informd, setup{server: server, sink: sinkSpec{kind: stdoutSink}, cores: 1, stdout: write})
	err = errors.Join(err, write.Close())
	if err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, c.kill(), server.tell(ctx, "/release"))
		c.port.Release()
	}()
	if err := read.SetReadDeadline(time.Now().Add(firstPatience)); err != nil {
		return 0, err
	}
	lines := bufio.NewReaderSize(read, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return 0, c.failure()
		}
		if err != nil {
			return 0, err
		}
		if bytes.Contains(line, []byte(`"op":"snapshot"`)) {
			return time.Since(began), nil
		}
	}
}
