// Command floor is the cheapest possible client of the Kubernetes API. It opens one watch
// that begins with all objects, reads the stream off TLS, splits it into frames at
// newlines, and drops the frames. No Go client can cost less. With -journal it stores the
// frames in a nats-server of its own: no client with that journal can cost less.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/informd/informd/test/bench/progress"
)

// bufferSize is how much is read at once: more than a TLS record, and more than
// most frames.
const bufferSize = 64 << 10

// largest is more than any frame of the benchmark that is stored.
const largest = 1 << 20

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	path := flag.String("path", "/api/v1/pods", "path of the resource")
	http1 := flag.Bool("http1", false, "speak HTTP/1.1")
	listen := flag.String("listen", "", "host:port where to say how far it is")
	dir := flag.String("journal", "", "directory of a nats-server that stores the frames")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *path, *http1, *listen, *dir); err != nil && ctx.Err() == nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, path string, http1 bool, listen, dir string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.DisableCompression = true
	if dir != "" {
		config.Dial = dialGathering
	}
	if http1 {
		config.NextProtos = []string{"http/1.1"}
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	r := reader{client: client, url: config.Host + path}
	if dir != "" {
		if r.journal, err = openJournal(ctx, dir); err != nil {
			return err
		}
		defer r.journal.close()
	}
	failed := make(chan error, 1)
	go func() { failed <- r.counters.Serve(ctx, listen) }()
	go func() { failed <- r.read(ctx) }()
	return <-failed
}

// reader reads one watch.
type reader struct {
	client   *http.Client
	url      string
	journal  *journal // nil for none
	counters progress.Counters
}

// read counts the frames of a watch until it ends.
func (r *reader) read(ctx context.Context) error {
	query := "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+query, http.NoBody)
	if err != nil {
		return err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("watch: %s", response.Status)
	}
	if r.journal != nil {
		return r.store(response.Body)
	}
	stream := bufio.NewReaderSize(response.Body, bufferSize)
	inside := false // a frame that is larger than the buffer
	for {
		line, err := stream.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return unlessEnded(err)
		}
		if !inside {
			count(&r.counters, line)
		}
		inside = err != nil
	}
}

// store stores the frames of a watch until it ends.
func (r *reader) store(body io.Reader) error {
	stream := bufio.NewReaderSize(body, largest)
	for {
		frame, err := stream.ReadSlice('\n')
		if err != nil {
			return unlessEnded(err)
		}
		if err := r.journal.put(frame); err != nil {
			return err
		}
		count(&r.counters, frame)
	}
}

// count counts a frame by its beginning.
func count(counters *progress.Counters, frame []byte) {
	switch {
	case bytes.HasPrefix(frame, []byte(`{"type":"ADDED"`)):
		counters.Objects.Add(1)
	case bytes.HasPrefix(frame, []byte(`{"type":"MODIFIED"`)):
		counters.Updates.Add(1)
	}
}

func unlessEnded(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the watch ended")
	}
	return err
}
