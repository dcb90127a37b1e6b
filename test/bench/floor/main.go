// Command floor is the cheapest possible client of the Kubernetes API. It opens one watch of all Pods
// that begins with all objects, reads the stream off TLS, splits it into frames at
// newlines, and drops the frames. No Go client can cost less.
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

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	listen := flag.String("listen", "", "host:port where to say how far it is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *listen); err != nil && ctx.Err() == nil {
		slog.New(slog.NewTextHandler(os.Stderr, nil)).Error("stopped", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, listen string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.DisableCompression = true
	config.NextProtos = []string{"http/1.1"} // which is cheaper to read than HTTP/2
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	r := reader{client: client, url: config.Host + "/api/v1/pods"}
	failed := make(chan error, 1)
	go func() { failed <- r.counters.Serve(ctx, listen) }()
	go func() { failed <- r.read(ctx) }()
	return <-failed
}

// reader reads one watch.
type reader struct {
	client   *http.Client
	url      string
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
