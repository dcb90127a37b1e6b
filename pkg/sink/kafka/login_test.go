package kafka_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
)

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	sinktest.Must(t, os.WriteFile(file, []byte(content), 0o600))
}

// TestLogin: each mechanism, with the right password and with others.
func TestLogin(t *testing.T) {
	const user, password = "informd", "right-4c1d"
	cluster := startCluster(t, kfake.EnableSASL(),
		kfake.Superuser("PLAIN", user, password), kfake.Superuser("SCRAM-SHA-256", user, password), kfake.Superuser("SCRAM-SHA-512", user, password))
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "password")
			writeFile(t, file, "wrong\n")
			s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) {
				c.Auth = connection.Auth{Mechanism: mechanism, Username: user, PasswordFile: file}
			}))
			events := sinktest.Events(5)
			wantError(t, s, events, "check auth") // kfake only closes the connection
			writeFile(t, file, password+"\n")     // read anew for every connection
			sinktest.MustWrite(t, s, events)
			sinktest.Must(t, os.Remove(file))
			sinktest.MustWrite(t, s, events) // connections live on
			s = sinktest.Open(t, config(t, cluster, func(c *kafka.Config) {
				c.Auth = connection.Auth{Mechanism: mechanism, Username: user, Password: sink.NewSecret(password)}
			}))
			sinktest.MustWrite(t, s, events)
		})
	}
	words := startCluster(t, kfake.EnableSASL())
	words.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		words.KeepControl()
		answer, ok := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		if !ok {
			return nil, nil, false
		}
		answer.ErrorCode, answer.ErrorMessage = kerr.SaslAuthenticationFailed.Code, new("invalid credentials")
		return answer, nil, true
	})
	plain := connection.Auth{Mechanism: "plain", Username: user, Password: sink.NewSecret(password)}
	for name, tt := range map[string]struct {
		cluster *kfake.Cluster
		auth    connection.Auth
		says    []string
	}{
		"refused in words":                  {words, plain, []string{"refuse the credentials", "check auth"}},
		"not at all":                        {cluster, connection.Auth{}, []string{"auth"}},
		"a mechanism that the brokers lack": {cluster, connection.Auth{Mechanism: "oauthbearer", Token: sink.NewSecret("t")}, []string{"check auth.mechanism"}},
		"to brokers without authentication": {startCluster(t), plain, []string{"auth"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sinktest.Open(t, config(t, tt.cluster, func(c *kafka.Config) { c.Auth = tt.auth }))
			wantError(t, s, sinktest.Events(5), tt.says...)
		})
	}
	records := consumed(t, cluster, []string{topic}, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	if len(records) != 3*15 {
		t.Errorf("%d records, want %d", len(records), 3*15)
	}
}

// TestPasswordStaysHere: the brokers announce another one, on another machine, which
// must not get the password without TLS.
func TestPasswordStaysHere(t *testing.T) {
	cluster := startCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p"))
	cluster.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer, ok := request.ResponseKind().(*kmsg.MetadataResponse)
		if !ok {
			return nil, nil, false
		}
		broker := kmsg.NewMetadataResponseBroker()
		broker.Host, broker.Port = "192.0.2.1", 9092
		found := kmsg.NewMetadataResponseTopic()
		found.Topic, found.TopicID = new(topic), [16]byte{1}
		found.Partitions = append(found.Partitions, kmsg.NewMetadataResponseTopicPartition())
		answer.Brokers, answer.Topics = append(answer.Brokers, broker), append(answer.Topics, found)
		return answer, nil, true
	})
	s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) {
		c.Auth = connection.Auth{Mechanism: "plain", Username: "u", Password: sink.NewSecret("p")}
	}))
	wantError(t, s, sinktest.Events(1), "broker 192.0.2.1:9092 would get the password or token without TLS")
}

func TestTLS(t *testing.T) {
	const host = "kafka.example.com"
	dir := t.TempDir()
	certFile, keyFile := sinktest.Certificate(t, filepath.Join(dir, "broker"), host)
	otherCert, otherKey := sinktest.Certificate(t, filepath.Join(dir, "informd"), "informd")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	sinktest.Must(t, err)
	clients := x509.NewCertPool()
	trusted, err := os.ReadFile(otherCert)
	if err != nil || !clients.AppendCertsFromPEM(trusted) {
		t.Fatal("no certificate", err)
	}
	cluster := startCluster(t, kfake.TLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	}))
	right := connection.TLS{CAFile: certFile, CertFile: otherCert, KeyFile: otherKey, ServerName: host}
	tests := map[string]struct {
		change func(c *connection.TLS)
		says   string // "" if it works
	}{
		"right":          {func(*connection.TLS) {}, ""},
		"wrong CA":       {func(c *connection.TLS) { c.CAFile = otherCert }, "certificate is not trusted"},
		"system's CAs":   {func(c *connection.TLS) { c.CAFile = "" }, "certificate is not trusted"},
		"wrong name":     {func(c *connection.TLS) { c.ServerName = "" }, "tls.serverName"},
		"no certificate": {func(c *connection.TLS) { c.CertFile, c.KeyFile = "", "" }, "tls.certFile"},
		"no TLS":         {func(c *connection.TLS) { *c = connection.TLS{} }, "Check tls"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) {
				c.TLS = right
				tt.change(&c.TLS)
			}))
			if tt.says == "" {
				sinktest.MustWrite(t, s, sinktest.Events(5))
				return
			}
			wantError(t, s, sinktest.Events(5), tt.says)
		})
	}
	t.Run("which of them", func(t *testing.T) {
		s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) { c.TLS.CAFile = otherCert }))
		wantError(t, s, sinktest.Events(5), cluster.ListenAddrs()[0])
	})
	t.Run("to brokers without", func(t *testing.T) {
		plain := sinktest.Listen(t, func(conn net.Conn) { _ = conn.Close() }) // as brokers do with what they do not understand
		s := sinktest.Open(t, config(t, cluster, func(c *kafka.Config) {
			c.TLS.Enabled, c.Servers = new(true), connection.NewServers(plain)
		}))
		wantError(t, s, sinktest.Events(5), "tls")
	})
}
