package kafka_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func TestValidate(t *testing.T) {
	const (
		canary = "canary-8e0d"
		least  = "servers: [kafka]\ntopic: t\n"
		remote = "servers: [kafka:9092]\ntopic: t\n"
		home   = "servers: ['127.0.0.1:9092', localhost, '[::1]:9092']\ntopic: t\n"
	)
	sinktest.Validate(t, kafka.Driver(), canary, map[string][2]string{
		"least":                    {least, ""},
		"several brokers":          {"servers: ['a:1', b, '10.0.0.1:9092', '::1', '[::1]', '[::1]:9092']\ntopic: t", ""},
		"no brokers":               {"topic: t", "servers"},
		"list in text":             {"servers: ['a:1,b:1']\ntopic: t", "servers"},
		"brokers with a scheme":    {"servers: ['a:1', 'kafka://canary-8e0d:9092']\ntopic: t", "servers[1]"},
		"broker with a password":   {"servers: ['u:canary-8e0d@a:9092']\ntopic: t", "servers"},
		"broker without a name":    {"servers: ['', ':9092', 'a b:1', 'a:0', 'a:70000', 'a:x']\ntopic: t", "servers[0] servers[1] servers[2] servers[3] servers[4] servers[5]"},
		"no topic":                 {"servers: [kafka]", "topic"},
		"topic pattern":            {"servers: [kafka]\ntopic: 'k8s.{cluster}.{group}.{resource}'", ""},
		"topic placeholder":        {"servers: [kafka]\ntopic: 'k8s.{kind}'", "topic"},
		"topic unclosed":           {"servers: [kafka]\ntopic: 'k8s.{group'", "topic"},
		"topic characters":         {"servers: [kafka]\ntopic: 'k8s/events'", "topic"},
		"topic braces":             {"servers: [kafka]\ntopic: 'k8s}'", "topic"},
		"topic dots":               {"servers: [kafka]\ntopic: '..'", "topic"},
		"topic length":             {"servers: [kafka]\ntopic: " + strings.Repeat("x", 250), "topic"},
		"create":                   {least + "create: {partitions: 6, replicas: 3, compact: true}", ""},
		"create no partitions":     {least + "create: {compact: true}", ""},
		"create few partitions":    {least + "create: {partitions: -1}", "create.partitions"},
		"create many partitions":   {least + "create: {partitions: 10001}", "create.partitions"},
		"create replicas":          {least + "create: {partitions: 1, replicas: 101}", "create.replicas"},
		"format":                   {least + "format: avro", "format"},
		"compression":              {least + "compression: brotli", "compression"},
		"half a key pair":          {least + "tls: {certFile: c}", "tls"},
		"no mechanism":             {least + "auth: {username: u, password: canary-8e0d}", "auth"},
		"mechanism":                {least + "auth: {mechanism: gssapi, username: u, passwordFile: p}", "auth.mechanism"},
		"creds and nkey":           {least + "auth: {mechanism: plain, credsFile: c, nkeyFile: n}", "auth.credsFile auth.nkeyFile"},
		"scram":                    {remote + "auth: {mechanism: scram-sha-512, username: u, passwordFile: p}", ""},
		"scram without a user":     {remote + "auth: {mechanism: scram-sha-256, passwordFile: p}", "auth"},
		"scram with a token":       {remote + "auth: {mechanism: scram-sha-256, username: u, password: p, tokenFile: t}", "auth"},
		"scram with a token alone": {remote + "auth: {mechanism: scram-sha-256, tokenFile: t}", "auth"},
		"no password":              {remote + "auth: {mechanism: scram-sha-256, username: u}", "auth"},
		"two passwords":            {remote + "auth: {mechanism: scram-sha-256, username: u, password: canary-8e0d, passwordFile: p}", "auth"},
		"oauth":                    {remote + "tls: {enabled: true}\nauth: {mechanism: oauthbearer, tokenFile: t}", ""},
		"oauth, token":             {remote + "tls: {enabled: true}\nauth: {mechanism: oauthbearer, token: canary-8e0d}", ""},
		"oauth without a token":    {remote + "tls: {enabled: true}\nauth: {mechanism: oauthbearer}", "auth"},
		"oauth with a password":    {remote + "tls: {enabled: true}\nauth: {mechanism: oauthbearer, tokenFile: t, password: canary-8e0d}", "auth"},
		"password exposed":         {remote + "auth: {mechanism: plain, username: u, password: canary-8e0d}", "auth"},
		"token exposed":            {remote + "auth: {mechanism: oauthbearer, tokenFile: t}", "auth"},
		"password at home":         {home + "auth: {mechanism: plain, username: u, password: p}", ""},
		"password over TLS":        {remote + "tls: {caFile: c}\nauth: {mechanism: plain, username: u, password: p}", ""},
		"password allowed":         {remote + "allowInsecureAuth: true\nauth: {mechanism: plain, username: u, password: p}", ""},
	})
}

// TestOpenNeedsItsFiles names files that are not there, or hold something else.
func TestOpenNeedsItsFiles(t *testing.T) {
	least := func(change func(c *kafka.Config)) sink.Config {
		return sinktest.Options(t, kafka.Driver(), func(c *kafka.Config) {
			c.Servers, c.Topic = connection.NewServers("127.0.0.1:1"), topic
		}, change)
	}
	sinktest.NamesFiles(t, least, map[string]func(c *kafka.Config, file string){
		"passwordFile": func(c *kafka.Config, file string) {
			c.Auth = connection.Auth{Mechanism: "scram-sha-512", Username: "u", PasswordFile: file}
		},
		"tokenFile": func(c *kafka.Config, file string) {
			c.Auth = connection.Auth{Mechanism: "oauthbearer", TokenFile: file}
		},
		"caFile":   func(c *kafka.Config, file string) { c.TLS.CAFile = file },
		"certFile": func(c *kafka.Config, file string) { c.TLS.CertFile, c.TLS.KeyFile = file, file },
	})
}
