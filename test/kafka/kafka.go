// Package kafka runs real Apache Kafka brokers for tests, each as a process of its own on
// loopback ports with its log in a temp dir. Tests kill, freeze and restart them; ports and
// logs stay the same. Every broker is a controller, too (KRaft).
//
//	cluster := kafka.Start(t, kafka.Options{Brokers: 3})
//	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...))
//
// Package binary of ../cluster fetches and caches the jars. Java 17 or later runs them, as the
// user nobody if the tests run as root.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/informd/informd/test/cluster/binary"
	"github.com/informd/informd/test/cluster/proc"
)

// Options of a cluster.
type Options struct {
	// Brokers is their number. Default: 1.
	Brokers int
	// Config has properties of all brokers, over those of the package: a topic that does not
	// exist is not created by itself, and the loss of a broker shows within three seconds.
	Config map[string]string
}

// Cluster is a number of brokers. Its methods may be used concurrently.
type Cluster struct {
	dir     *proc.Dir
	brokers []*Broker
	answers atomic.Int64 // counts on from the broker that answered last

	closeOnce sync.Once
	closeErr  error
}

// Broker is one broker with a controller. The methods of [proc.Process] are its own: Start,
// Stop, Kill, Freeze, Thaw and the rest.
type Broker struct {
	*proc.Process
	ID int32

	plain, secure, controller *proc.Port
}

// Address is where everybody may do everything.
func (b *Broker) Address() string { return b.plain.Address() }

// SecureAddress is where a SCRAM login and ACLs rule, without TLS.
func (b *Broker) SecureAddress() string { return b.secure.Address() }

// Stop ends the broker as an operator does, and hands its partitions over first.
func (b *Broker) Stop() error {
	const terminated = 128 + int(syscall.SIGTERM) // how Java says that it ended by the signal
	err := b.Process.Stop()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == terminated {
		return nil
	}
	return err
}

// Start starts a cluster and blocks until all brokers serve. It fails the test on an error,
// and closes the cluster at the end of the test. If the test failed by then, the ends of the
// brokers' logs are logged.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	c, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, b := range c.brokers {
			if t.Failed() {
				t.Logf("%s\n%s", b.Name(), b.LogTail())
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("close kafka: %v", err)
		}
	})
	return c
}

// New starts a cluster and blocks until all brokers serve. ctx bounds the start only. After an
// error nothing is left; otherwise the caller has to Close.
func New(ctx context.Context, options Options) (*Cluster, error) {
	jars, err := binary.Kafka(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if c.dir, err = proc.TempDir("kafka"); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, jars, options); err != nil {
		return nil, fmt.Errorf("start kafka: %w", errors.Join(err, c.Close()))
	}
	if err := c.StartAll(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// StartAll starts the brokers that do not run, side by side: one alone has no quorum.
func (c *Cluster) StartAll(ctx context.Context) error {
	return c.each(func(b *Broker) error {
		if b.Running() {
			return nil
		}
		return b.Start(ctx)
	})
}

// KillAll kills all brokers, side by side.
func (c *Cluster) KillAll() error { return c.each(func(b *Broker) error { return b.Kill() }) }

// each calls do for all brokers at once and joins the errors.
func (c *Cluster) each(do func(b *Broker) error) error {
	errs := make([]error, len(c.brokers))
	var running sync.WaitGroup
	for i, b := range c.brokers {
		running.Go(func() { errs[i] = do(b) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// Brokers are all brokers; their ids count from 1.
func (c *Cluster) Brokers() []*Broker { return slices.Clone(c.brokers) }

// Broker returns the broker with an id of 1 and up.
func (c *Cluster) Broker(id int32) *Broker { return c.brokers[id-1] }

// Addresses are those of all brokers.
func (c *Cluster) Addresses() []string { return c.addresses((*Broker).Address) }

// SecureAddresses are those of all brokers where a login and ACLs rule.
func (c *Cluster) SecureAddresses() []string { return c.addresses((*Broker).SecureAddress) }

func (c *Cluster) addresses(of func(*Broker) string) []string {
	all := make([]string, len(c.brokers))
	for i, b := range c.brokers {
		all[i] = of(b)
	}
	return all
}

// Close kills the brokers and removes their files. Closing again returns the same error.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		err := c.KillAll()
		for _, b := range c.brokers {
			for _, port := range []*proc.Port{b.plain, b.secure, b.controller} {
				port.Release()
			}
		}
		c.closeErr = errors.Join(err, c.dir.Close())
	})
	return c.closeErr
}

// prepare writes the files of the brokers and formats their logs.
func (c *Cluster) prepare(ctx context.Context, jars string, options Options) error {
	for id := range max(options.Brokers, 1) {
		b := &Broker{ID: int32(id + 1), Process: &proc.Process{}}
		for _, port := range []**proc.Port{&b.plain, &b.secure, &b.controller} {
			var err error
			if *port, err = proc.FreePort(); err != nil {
				return err
			}
		}
		c.brokers = append(c.brokers, b)
	}
	// Copies, because an unprivileged user cannot read the home directory of root.
	if err := os.CopyFS(c.dir.Join("jars"), os.DirFS(jars)); err != nil {
		return err
	}
	if err := os.WriteFile(c.dir.Join("log4j2.properties"), []byte(logging), 0o600); err != nil {
		return err
	}
	for _, b := range c.brokers {
		if err := os.Mkdir(c.path(b), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(c.path(b, "server.properties"), c.config(b, options.Config), 0o600); err != nil {
			return err
		}
		b.Process = c.process(b)
	}
	if err := giveAway(c.dir.Join()); err != nil {
		return err
	}
	return c.each(func(b *Broker) error { return c.format(ctx, b) })
}

func (c *Cluster) path(b *Broker, elem ...string) string {
	return c.dir.Join(append([]string{fmt.Sprint("broker-", b.ID)}, elem...)...)
}

// config is the server.properties of a broker.
func (c *Cluster) config(b *Broker, over map[string]string) []byte {
	var voters []string
	for _, other := range c.brokers {
		voters = append(voters, fmt.Sprintf("%d@%s", other.ID, other.controller.Address()))
	}
	replicas, least := len(c.brokers), len(c.brokers)/2+1
	listeners := fmt.Sprintf("PLAIN://%s,SECURE://%s", b.Address(), b.SecureAddress())
	properties := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        fmt.Sprint(b.ID),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"listeners":                      listeners + ",CONTROLLER://" + b.controller.Address(),
		"advertised.listeners":           listeners,
		"listener.security.protocol.map": "PLAIN:PLAINTEXT,SECURE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "PLAIN",
		"log.dirs":                       c.path(b, "log"),

		"sasl.enabled.mechanisms":                             "SCRAM-SHA-512",
		"listener.name.secure.scram-sha-512.sasl.jaas.config": scramLogin,
		"authorizer.class.name":                               "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                                         "User:ANONYMOUS",

		"default.replication.factor":     fmt.Sprint(replicas),
		"min.insync.replicas":            fmt.Sprint(least),
		"auto.create.topics.enable":      "false",
		"broker.session.timeout.ms":      "3000",
		"controller.socket.timeout.ms":   "3000", // of requests to a frozen controller
		"broker.heartbeat.interval.ms":   "500",
		"replica.lag.time.max.ms":        "3000",
		"auto.leader.rebalance.enable":   "false",
		"log.cleaner.dedupe.buffer.size": "4194304",
	}
	maps.Copy(properties, over)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", name, properties[name])
	}
	return []byte(text.String())
}
