package otlp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/internal/compress"
	"github.com/informd/informd/pkg/sink/internal/endpoint/endpointtest"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(c *otlp.Config){
		"http": func(*otlp.Config) {},
		"grpc": useGRPC,
		"small, gzip": func(c *otlp.Config) {
			c.Protocol, c.Compression, c.MaxRequestBytes = otlp.GRPC, compress.Gzip, 4*sink.KiB
		},
	} {
		t.Run(name, func(t *testing.T) {
			endpointtest.Run(t, endpointtest.Target{
				Lanes:     otlp.Driver().Lanes,
				Unstarted: unstarted,
				Open: func(t *testing.T, url string) sink.Sink {
					t.Helper()
					s, err := config(t, url, func(c *otlp.Config) {
						c.Timeout = 20 * time.Second
						change(c)
					}).Open(t.Context(), sinktest.Env(t))
					sinktest.Must(t, err)
					return s
				},
				Records: records,
				Names: func(t *testing.T, r request) (names []string) {
					t.Helper()
					for _, one := range flat(decode(t, r)) {
						names = append(names, one.attributes["k8s.object.name"])
					}
					return names
				},
				Answer: func(w http.ResponseWriter, r request, status int) {
					switch status {
					case http.StatusOK:
						accept(w, r, nil)
					case http.StatusBadRequest:
						fail(w, r, status, 3)
					default:
						fail(w, r, status, 14)
					}
				},
			})
		})
	}
}
