package webhook_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/sinktest"
	"github.com/informd/informd/pkg/sink/webhook"
)

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(c *webhook.Config){
		"one event":   func(*webhook.Config) {},
		"batches":     func(c *webhook.Config) { c.Batch = 10 },
		"gzip":        func(c *webhook.Config) { c.Batch, c.Compression = 10, compress.Gzip },
		"binary, zst": func(c *webhook.Config) { c.Format, c.Compression = webhook.Binary, compress.Zstd },
	} {
		t.Run(name, func(t *testing.T) {
			endpointtest.Run(t, endpointtest.Target{
				Lanes:     webhook.Driver().Lanes,
				Unstarted: endpointtest.Unstarted,
				Open: func(t *testing.T, url string) sink.Sink {
					t.Helper()
					s, err := config(t, url, func(c *webhook.Config) {
						c.Timeout = 20 * time.Second
						change(c)
					}).Open(t.Context(), sinktest.Env(t))
					sinktest.Must(t, err)
					return s
				},
				Records: records,
				Names: func(t *testing.T, r request) (names []string) {
					t.Helper()
					for _, record := range decode(t, r) {
						names = append(names, record.Attributes["name"])
					}
					return names
				},
				Answer: func(w http.ResponseWriter, _ request, status int) { w.WriteHeader(status) },
			})
		})
	}
}
