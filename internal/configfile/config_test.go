package configfile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/informd/informd/internal/config"
	"github.com/informd/informd/internal/configfile"
	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/drivers"
)

// The fake sink types have the keys that the real ones are documented with, so
// that mistakes are tested on what users write.
func fakeDrivers() []sink.Driver {
	return []sink.Driver{
		{Type: "stdout", Lanes: 1, New: func() sink.Config { return &stdoutOptions{Format: "cloudevents"} }},
		{Type: "file", Lanes: 1, New: func() sink.Config { return &fileOptions{MaxBytes: 100 * sink.MiB, MaxFiles: 10} }},
		{Type: "nats", Lanes: 1, Remote: true, New: func() sink.Config { return &natsOptions{SubjectPrefix: "events"} }},
		{Type: "webhook", Lanes: 8, Remote: true, New: func() sink.Config { return &webhookOptions{Timeout: 10 * time.Second, Batch: 1} }},
	}
}

// noSink is the half of sink.Config that no test here comes to.
type noSink struct{}

func (noSink) Open(context.Context, sink.Env) (sink.Sink, error) {
	return nil, errors.New("a fake does not open")
}

type format string

type stdoutOptions struct {
	noSink
	Format format `yaml:"format"`
}

func (o *stdoutOptions) Validate() []sink.Problem {
	if o.Format != "cloudevents" && o.Format != "pretty" {
		return []sink.Problem{{Key: "format", Message: `is neither "cloudevents" nor "pretty"`}}
	}
	return nil
}

type fileOptions struct {
	noSink
	Path     string        `yaml:"path"`
	MaxBytes sink.ByteSize `yaml:"maxBytes"`
	MaxFiles int           `yaml:"maxFiles"`
}

func (o *fileOptions) Validate() []sink.Problem {
	if o.Path == "" {
		return []sink.Problem{{Key: "path", Message: "is required"}}
	}
	return nil
}

func (o *fileOptions) Exclusive() (key, name string) { return "path", o.Path }

type tlsOptions struct {
	CAFile string `yaml:"caFile"`
}

type natsOptions struct {
	noSink
	Servers       connection.Servers `yaml:"servers"`
	JetStream     bool               `yaml:"jetstream"`
	SubjectPrefix string             `yaml:"subjectPrefix"`
	Stream        string             `yaml:"stream"`
	Create        createOptions      `yaml:"create"`
	TLS           tlsOptions         `yaml:"tls"`
}

type createOptions struct {
	Never    bool `yaml:"-"`
	Replicas int  `yaml:"replicas"`
}

func (o *createOptions) Toggle(on bool) { o.Never = !on }

func (o *natsOptions) Validate() []sink.Problem {
	if len(o.Servers) == 0 {
		return []sink.Problem{{Key: "servers", Message: "is required"}}
	}
	return nil
}

type retryOptions struct {
	Attempts *uint8 `yaml:"attempts"`
}

type signingOptions struct {
	KeyFile string `yaml:"keyFile"`
}

type webhookOptions struct {
	noSink
	retryOptions `yaml:",inline"`

	URL     string                 `yaml:"url"`
	Headers map[string]sink.Secret `yaml:"headers"`
	Signing signingOptions         `yaml:"signing"`
	Timeout time.Duration          `yaml:"timeout"`
	Batch   int                    `yaml:"batch"`
	Ratio   float64                `yaml:"ratio"`
	Codes   []int                  `yaml:"codes"`
}

func (o *webhookOptions) Validate() []sink.Problem {
	var problems []sink.Problem
	if o.URL == "" {
		problems = append(problems, sink.Problem{Key: "url", Message: "is required"})
	}
	if _, ok := o.Headers["X.Forbidden"]; ok {
		problems = append(problems, sink.Problem{Key: "headers.X.Forbidden", Message: "is set by informd itself"})
	}
	if o.Batch < 1 {
		problems = append(problems, sink.Problem{Key: "batch", Message: "must be at least 1"})
	}
	for i, code := range o.Codes {
		if code < 100 {
			problems = append(problems, sink.Problem{Key: "codes[" + string(rune('0'+i)) + "]", Message: "is not a status"})
		}
	}
	if o.Signing.KeyFile != "" && o.Headers == nil {
		problems = append(problems, sink.Problem{Key: "headers.Authorization", Message: "is missing"})
	}
	return problems
}

// parse parses with the fake drivers.
func parse(body string) (*config.Config, error) {
	return configfile.Parse("config.yaml", []byte(body), fakeDrivers())
}

// mustParse is parse for a config that has no mistake.
func mustParse(t *testing.T, body string) *config.Config {
	t.Helper()
	c, err := parse(body)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

// parseWith parses with the real drivers.
func parseWith(body string) (*config.Config, error) {
	return configfile.Parse("config.yaml", []byte(body), drivers.All())
}

// warnings are those of a config.
func warnings(c *config.Config) string {
	if len(c.Warnings) == 0 {
		return ""
	}
	return c.Warnings.Error()
}
