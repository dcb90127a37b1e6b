package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	openPages = 50
	pagesRate = 1_000 // events/s
	shownRate = 50    // events/s that a page shows at most
)

// pagesRun is informd with a sink, without and with open pages.
type pagesRun struct {
	// Share is in percent of one core, RSS the most in MiB, Lag the most events that the sink was behind.
	Share, RSS, Lag float64
}

// pages opens the page 50 times, each with a tail of all events, while events come. What a page
// reads comes over the socket, as for the page in a browser over TCP.
func (b *bench) pages(ctx context.Context) (err error) {
	server, err := b.startServer(ctx, source{corpus: "pods", objects: 1_000})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	c, err := b.startClient(informd, setup{server: server, sink: sinkSpec{kind: stdoutSink}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	if _, _, err := c.settle(ctx, border{}, int64(server.objects), 0, server.objects); err != nil {
		return err
	}
	before, period := warmUp, rateFor
	if b.quick {
		before, period = time.Second, time.Second
	}
	events := int((2*before+2*period).Seconds()+2) * pagesRate
	if err := b.whenWatching(ctx, server, func() error { return server.play(ctx, events, pagesRate) }); err != nil {
		return err
	}
	if err := pause(ctx, before); err != nil {
		return err
	}
	if b.withoutPages, err = c.watched(ctx, period); err != nil {
		return err
	}
	reading, closePages := context.WithCancel(ctx)
	defer closePages()
	pages := openAll(reading, filepath.Join(filepath.Dir(c.log), "admin.sock"))
	if err := pause(ctx, before); err != nil {
		return err
	}
	shown := pages.shown.Load()
	if b.withPages, err = c.watched(ctx, period); err != nil {
		return err
	}
	if n := pages.open.Load(); n != 2*openPages {
		return fmt.Errorf("%d streams are open, want 2 for each of %d pages", n, openPages)
	}
	if n, want := pages.shown.Load()-shown, int64(openPages*shownRate*period.Seconds()/2); n < want {
		return fmt.Errorf("%d pages show %d events in %v, want at least %d", openPages, n, period, want)
	}
	b.say("%d pages: %.0f%% of one core, %.0f MiB, lag %.0f; without: %.0f%%, %.0f MiB, lag %.0f", openPages,
		b.withPages.Share, b.withPages.RSS, b.withPages.Lag, b.withoutPages.Share, b.withoutPages.RSS, b.withoutPages.Lag)
	return nil
}

// opened are the pages of openAll.
type opened struct {
	// open counts the streams that are open, shown the events of all tails.
	open, shown atomic.Int64
}

// openAll reads what 50 pages read, until ctx ends or informd drops them.
func openAll(ctx context.Context, socket string) *opened {
	web := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true, MaxConnsPerHost: 2 * openPages,
	}}
	pages := new(opened)
	for i := range 2 * openPages {
		path := []string{"/page/status", fmt.Sprintf("/tail?perSecond=%d", shownRate)}[i%2]
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://informd"+path, http.NoBody)
			if err != nil {
				return
			}
			answer, err := web.Do(request)
			if err != nil {
				return
			}
			defer answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				pages.open.Add(1)
				defer pages.open.Add(-1)
			}
			lines := bufio.NewScanner(answer.Body)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				if bytes.HasPrefix(lines.Bytes(), []byte(`data: {"specversion"`)) {
					pages.shown.Add(1)
				}
			}
		}()
	}
	return pages
}

// watched measures a client for some time.
func (c *client) watched(ctx context.Context, period time.Duration) (r pagesRun, err error) {
	from, err := c.border(0)
	if err != nil {
		return r, err
	}
	for end := time.Now().Add(period); time.Now().Before(end); {
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return r, err
		}
		rss, err := c.memory("VmRSS")
		if err != nil {
			return r, err
		}
		metrics, err := scrape(ctx, c.address)
		if err != nil {
			return r, err
		}
		for series, value := range metrics {
			if strings.HasPrefix(series, "informd_sink_lag_events{") {
				r.Lag = max(r.Lag, value)
			}
		}
		r.RSS = max(r.RSS, rss)
	}
	to, err := c.border(0)
	r.Share = 100 * float64(to.cpu-from.cpu) / float64(to.at.Sub(from.at))
	return r, err
}
