package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"
)

const (
	// batchLimit is the most messages of one request.
	batchLimit = 64
	// linger is how long a message waits for others.
	linger = 10 * time.Millisecond
)

// webhook posts arrays of messages, one request at a time.
type webhook struct {
	counter

	url     string
	pending chan message
}

func newWebhook(ctx context.Context, url string, c counter) *webhook {
	s := &webhook{counter: c, url: url, pending: make(chan message, 4*batchLimit)}
	go s.run(ctx)
	return s
}

func (s *webhook) send(m message) error {
	s.pending <- m
	return nil
}

func (s *webhook) run(ctx context.Context) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	for {
		batch := s.collect(ctx)
		if len(batch) == 0 {
			return
		}
		if err := s.post(ctx, batch); err != nil {
			logger.Error("post", "err", err)
			continue
		}
		for _, m := range batch {
			s.count(m)
		}
	}
}

// collect waits for a message and those that follow soon; there is none once ctx has
// ended.
func (s *webhook) collect(ctx context.Context) (batch []message) {
	select {
	case m := <-s.pending:
		batch = append(batch, m)
	case <-ctx.Done():
		return nil
	}
	due := time.NewTimer(linger)
	defer due.Stop()
	for len(batch) < batchLimit {
		select {
		case m := <-s.pending:
			batch = append(batch, m)
		case <-due.C:
			return batch
		}
	}
	return batch
}

func (s *webhook) post(ctx context.Context, batch []message) error {
	var body bytes.Buffer
	for i, m := range batch {
		body.WriteByte("[,"[min(i, 1)])
		body.Write(m.body)
	}
	body.WriteByte(']')
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, &body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("post: %s", response.Status)
	}
	return nil
}
