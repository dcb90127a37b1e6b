package kafka_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestValidate(t *testing.T) {
	const (
		canary = "canary-8e0d"
		least  = "brokers: [kafka]\ntopic: t\n"
		remote = "brokers: [kafka:9092]\ntopic: t\n"
		home   = "brokers: ['127.0.0.1:9092', localhost, '[::1]:9092']\ntopic: t\n"
	)
	tests := map[string]struct {
		yaml string
		keys string // of the problems, sorted
	}{
		"least":                  {least, ""},
		"several brokers":        {"brokers: ['a:1', b, '10.0.0.1:9092', '::1', '[::1]', '[::1]:9092']\ntopic: t", ""},
		"no brokers":             {"topic: t", "brokers"},
		"brokers with a scheme":  {"brokers: ['a:1', 'kafka://canary-8e0d:9092']\ntopic: t", "brokers[1]"},
		"broker with a password": {"brokers: ['u:canary-8e0d@a:9092']\ntopic: t", "brokers[0]"},
		"broker without a name":  {"brokers: ['', ':9092', 'a b:1', 'a:0', 'a:70000', 'a:x']\ntopic: t", "brokers[0] brokers[1] brokers[2] brokers[3] brokers[4] brokers[5]"},
		"no topic":               {"brokers: [kafka]", "topic"},
		"topic pattern":          {"brokers: [kafka]\ntopic: 'k8s.{cluster}.{group}.{resource}'", ""},
		"topic placeholder":      {"brokers: [kafka]\ntopic: 'k8s.{kind}'", "topic"},
		"topic unclosed":         {"brokers: [kafka]\ntopic: 'k8s.{group'", "topic"},
		"topic characters":       {"brokers: [kafka]\ntopic: 'k8s/events'", "topic"},
		"topic braces":           {"brokers: [kafka]\ntopic: 'k8s}'", "topic"},
		"topic dots":             {"brokers: [kafka]\ntopic: '..'", "topic"},
		"topic length":           {"brokers: [kafka]\ntopic: " + strings.Repeat("x", 250), "topic"},
		"create topics":          {least + "createTopics: {partitions: 6, replicas: 3, compact: true}", ""},
		"create no partitions":   {least + "createTopics: {compact: true}", "createTopics"},
		"create few partitions":  {least + "createTopics: {partitions: -1}", "createTopics.partitions"},
		"create many partitions": {least + "createTopics: {partitions: 10001}", "createTopics.partitions"},
		"create replicas":        {least + "createTopics: {partitions: 1, replicas: 101}", "createTopics.replicas"},
		"format":                 {least + "format: avro", "format"},
		"compression":            {least + "compression: brotli", "compression"},
		"half a key pair":        {least + "tls: {certFile: c}", "tls"},
		"no mechanism":           {least + "sasl: {user: u, password: canary-8e0d}", "sasl"},
		"mechanism":              {least + "sasl: {mechanism: gssapi, user: u}", "sasl.mechanism"},
		"scram":                  {remote + "sasl: {mechanism: scram-sha-512, user: u, passwordFile: p}", ""},
		"scram without a user":   {remote + "sasl: {mechanism: scram-sha-256, passwordFile: p}", "sasl"},
		"scram with a token":     {remote + "sasl: {mechanism: scram-sha-256, user: u, password: p, tokenFile: t}", "sasl.tokenFile"},
		"no password":            {remote + "sasl: {mechanism: scram-sha-256, user: u}", "sasl"},
		"two passwords":          {remote + "sasl: {mechanism: scram-sha-256, user: u, password: canary-8e0d, passwordFile: p}", "sasl"},
		"oauth":                  {remote + "tls: {enabled: true}\nsasl: {mechanism: oauthbearer, tokenFile: t}", ""},
		"oauth without a token":  {remote + "tls: {enabled: true}\nsasl: {mechanism: oauthbearer}", "sasl"},
		"oauth with a password":  {remote + "tls: {enabled: true}\nsasl: {mechanism: oauthbearer, tokenFile: t, password: canary-8e0d}", "sasl"},
		"password exposed":       {remote + "sasl: {mechanism: plain, user: u, password: canary-8e0d}", "sasl"},
		"token exposed":          {remote + "sasl: {mechanism: oauthbearer, tokenFile: t}", "sasl"},
		"password at home":       {home + "sasl: {mechanism: plain, user: u, password: p}", ""},
		"password over TLS":      {remote + "tls: {caFile: c}\nsasl: {mechanism: plain, user: u, password: p}", ""},
		"password allowed":       {remote + "allowPlaintext: true\nsasl: {mechanism: plain, user: u, password: p}", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := kafka.Driver().New()
			if err := yaml.UnmarshalWithOptions([]byte(tt.yaml), c, yaml.Strict()); err != nil {
				t.Fatal(err)
			}
			var keys []string
			for _, p := range c.Validate() {
				keys = append(keys, p.Key)
				if p.Message == "" || strings.Contains(p.Message, canary) {
					t.Errorf("the message says nothing, or shows a secret: %q", p.Message)
				}
			}
			slices.Sort(keys)
			if diff := cmp.Diff(strings.Fields(tt.keys), keys, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("problems about (-want +got):\n%s", diff)
			}
			if shown := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(tt.yaml, "password: "+canary) && strings.Contains(shown, canary) {
				t.Errorf("the options show a secret: %s", shown)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	d := kafka.Driver()
	c, ok := d.New().(*kafka.Config)
	if !ok || d.Type != "kafka" || d.Lanes != 1 || !d.Remote || !c.Tombstones || c.Format != "binary" || c.Compression != "none" || c.CreateTopics.Partitions != 0 {
		t.Errorf("driver %+v, options %+v", d, c)
	}
}

// TestOpenNeedsItsFiles names files that are not there, or hold something else.
func TestOpenNeedsItsFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{missing, wrong} {
		for key, change := range map[string]func(c *kafka.Config){
			"passwordFile": func(c *kafka.Config) {
				c.SASL = kafka.SASL{Mechanism: "scram-sha-512", User: "u", PasswordFile: file}
			},
			"tokenFile": func(c *kafka.Config) { c.SASL = kafka.SASL{Mechanism: "oauthbearer", TokenFile: file} },
			"caFile":    func(c *kafka.Config) { c.TLS.CAFile = file },
			"certFile":  func(c *kafka.Config) { c.TLS.CertFile, c.TLS.KeyFile = file, file },
		} {
			t.Run(key+" "+filepath.Base(file), func(t *testing.T) {
				c, ok := kafka.Driver().New().(*kafka.Config)
				if !ok {
					t.Fatal("the driver's options are no *kafka.Config")
				}
				c.Brokers, c.Topic = []string{"127.0.0.1:1"}, topic
				change(c)
				_, err := sink.Config(c).Open(t.Context(), sinktest.Env(t))
				if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), file) {
					t.Errorf("Open: %v, want an error that names %s and the file", err, key)
				}
			})
		}
	}
}
