package otlp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/otlp"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestValidate(t *testing.T) {
	yes := true
	for name, tt := range map[string]struct {
		url    string
		change func(c *otlp.Config)
		want   string // key: a part of the message; "" for no problem
	}{
		"plain":           {plainHTTP, nil, ""},
		"a path":          {"https://loki.example.com/otlp", nil, ""},
		"no address":      {"", nil, "url: is required"},
		"none over gRPC":  {"", useGRPC, "url: is required: the address of the endpoint, as in https://collector:4317"},
		"no scheme":       {"collector:4318", nil, "url: is not an address"},
		"plain elsewhere": {"http://collector:4318", nil, "url: would send events without TLS"},
		"allowed":         {"http://collector:4318", func(c *otlp.Config) { c.AllowHTTP = true }, ""},
		"whole path":      {"https://collector:4318/v1/logs", nil, "url: ends in /v1/logs"},
		"path of gRPC":    {"https://collector:4317/otlp", useGRPC, "url: has a path"},
		"protocol":        {plainHTTP, func(c *otlp.Config) { c.Protocol = "http/json" }, "protocol: \"http/json\" is not a protocol"},
		"shape":           {plainHTTP, func(c *otlp.Config) { c.Shape = "k8s" }, "shape: \"k8s\" is not a shape"},
		"compression":     {plainHTTP, func(c *otlp.Config) { c.Compression = "snappy" }, "compression: \"snappy\""},
		"timeout":         {plainHTTP, func(c *otlp.Config) { c.Timeout = 0 }, "timeout: must be more than 0"},
		"tiny requests":   {plainHTTP, func(c *otlp.Config) { c.MaxRequestBytes = 100 }, "maxRequestBytes: must be at least 4KiB"},
		"tls":             {plainHTTP, func(c *otlp.Config) { c.TLS.Enabled = &yes }, "tls.enabled: an otlp sink does not take"},
		"own header":      {plainHTTP, func(c *otlp.Config) { c.Headers = map[string]sink.Secret{"grpc-timeout": {}} }, "headers.grpc-timeout: is set by informd"},
		"two users": {"https://u:p@example.com", func(c *otlp.Config) {
			c.Auth = connection.Auth{Username: "u", Password: sink.NewSecret("p")}
		}, "auth: url has a user"},
		"other auth": {plainHTTP, func(c *otlp.Config) { c.Auth.NkeyFile = "n" }, "auth.nkeyFile: an otlp sink does not take"},
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := otlp.Driver().New().(*otlp.Config)
			if !ok {
				t.Fatal("the driver's options are no *otlp.Config")
			}
			c.URL = sink.NewSecret(tt.url)
			if tt.change != nil {
				tt.change(c)
			}
			var got []string
			for _, p := range c.Validate() {
				got = append(got, p.Key+": "+p.Message)
			}
			if tt.want == "" && len(got) > 0 || tt.want != "" && !slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, tt.want) }) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
		})
	}
}

// TestOpenNamesTheFile: a file that cannot be read is an error with its key.
func TestOpenNamesTheFile(t *testing.T) {
	least := func(change func(c *otlp.Config)) sink.Config { return config(t, "https://example.com", change) }
	sinktest.NamesFiles(t, least, map[string]func(c *otlp.Config, file string){
		"auth.tokenFile": func(c *otlp.Config, file string) { c.Auth.TokenFile = file },
		"tls.caFile":     func(c *otlp.Config, file string) { c.TLS.CAFile = file },
	})
}
