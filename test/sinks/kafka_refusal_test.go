package sinks_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/informd/informd/pkg/connection"
	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/sink"
	"github.com/informd/informd/pkg/sink/kafka"
	"github.com/informd/informd/pkg/sink/sinktest"
	kafkaserver "github.com/informd/informd/test/kafka"
)

const (
	// kafkaSession is how long a login is valid. The client logs in again before it ends.
	kafkaSession  = 2 * time.Second
	kafkaPassword = "s3cret-of-the-tests"
)

// refusals is one broker that everything is refused by, and a client that has all rights.
type refusals struct {
	cluster *kafkaserver.Cluster
	admin   *kadm.Client
}

// TestKafkaRefusals has a broker refuse what a sink sends, for each reason that an operator can
// give it and take away. The reasons are in the errors, and nothing is lost.
func TestKafkaRefusals(t *testing.T) {
	cluster := kafkaserver.Start(t, kafkaserver.Options{Config: map[string]string{
		"listener.name.secure.scram-sha-512.connections.max.reauth.ms": strconv.FormatInt(kafkaSession.Milliseconds(), 10),
	}})
	r := refusals{cluster, kafkaAdmin(t, cluster)}
	t.Run("permissions", r.permissions)
	t.Run("credentials", r.credentials)
	t.Run("max message bytes", r.maxMessageBytes)
	t.Run("record", r.record)
	t.Run("deleted topic", r.deletedTopic)
	t.Run("topic of another creator", r.topicOfAnother)
	t.Run("topic that cannot be created", r.uncreatable)
}

// set sets a property of a topic.
func (r refusals) set(t *testing.T, topic, name, value string) {
	t.Helper()
	property := kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
	answer, err := r.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{property}, topic)
	must(t, err)
	for _, one := range answer {
		must(t, one.Err)
	}
}

// user creates a user, or gives it the password again.
func (r refusals) user(t *testing.T, name string) {
	t.Helper()
	answer, err := r.admin.AlterUserSCRAMs(t.Context(), nil,
		[]kadm.UpsertSCRAM{{User: name, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: kafkaPassword}})
	must(t, err, answer[name].Err)
}

func (r refusals) dropUser(t *testing.T, name string) {
	t.Helper()
	answer, err := r.admin.AlterUserSCRAMs(t.Context(), []kadm.DeleteSCRAM{{User: name, Mechanism: kadm.ScramSha512}}, nil)
	must(t, err, answer[name].Err)
}

func acl(user, topic string, operations ...kadm.ACLOperation) *kadm.ACLBuilder {
	return kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(operations...).
		Allow("User:" + user)
}

func (r refusals) grant(t *testing.T, user, topic string, operations ...kadm.ACLOperation) {
	t.Helper()
	answer, err := r.admin.CreateACLs(t.Context(), acl(user, topic, operations...).AllowHosts())
	must(t, err)
	for _, one := range answer {
		must(t, one.Err)
	}
}

func (r refusals) revoke(t *testing.T, user, topic string, operations ...kadm.ACLOperation) {
	t.Helper()
	answer, err := r.admin.DeleteACLs(t.Context(), acl(user, topic, operations...).AllowHosts())
	must(t, err)
	for _, one := range answer {
		must(t, one.Err)
	}
}

// login is what a config needs for a user.
func (r refusals) login(user string) func(c *kafka.Config) {
	return func(c *kafka.Config) {
		c.Servers = connection.NewServers(r.cluster.SecureAddresses()...)
		c.Auth = connection.Auth{Mechanism: "scram-sha-512", Username: user, Password: sink.NewSecret(kafkaPassword)}
	}
}

// refused writes until the sink returns an error, which has to be one that passes and to say
// each of the texts. It returns how many of the events were taken.
func refused(t *testing.T, s sink.Sink, events []event.Event, says ...string) int {
	t.Helper()
	taken, err := failure(t, s, events)
	if sink.IsPermanent(err) || sink.IsUnknown(err) {
		t.Errorf("the error is not one that passes: %v", err)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not say %q", err, text)
		}
	}
	return taken
}

// failure writes the events one by one, slowly, until the sink returns an error.
func failure(t *testing.T, s sink.Sink, events []event.Event) (taken int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for taken = range events {
		n, err := s.Write(ctx, events[taken:taken+1])
		if err != nil && ctx.Err() == nil {
			return taken + n, err
		}
		must(t, ctx.Err())
		pause(ctx, 20*time.Millisecond)
	}
	t.Fatalf("the sink took all %d events", len(events))
	return 0, nil
}

// permissions: the least rights that the docs name are enough, and each one is needed.
func (r refusals) permissions(t *testing.T) {
	const user, topic = "writer", "permissions"
	r.user(t, user)
	s := open(t, kafkaConfig(t, r.cluster, topic, r.login(user)))
	events := sinktest.Events(1000)
	refused(t, s, events, "grant Write and Describe", "TOPIC_AUTHORIZATION_FAILED")
	r.grant(t, user, topic, kadm.OpWrite, kadm.OpDescribe)
	refused(t, s, events, "Create unless create is false", "TOPIC_AUTHORIZATION_FAILED")
	r.grant(t, user, topic, kadm.OpCreate)
	sinktest.Deliver(t, s, events[:20])
	done := 20
	for _, right := range []kadm.ACLOperation{kadm.OpWrite, kadm.OpDescribe} {
		r.revoke(t, user, topic, right)
		if right == kadm.OpDescribe { // Write implies it
			r.revoke(t, user, topic, kadm.OpWrite)
		}
		done += refused(t, s, events[done:], "grant Write and Describe", "TOPIC_AUTHORIZATION_FAILED")
		r.grant(t, user, topic, right, kadm.OpWrite)
		sinktest.Deliver(t, s, events[done:done+20])
		done += 20
	}
	if twice := wantInTopic(t, r.cluster, topic, events[:done]); twice > 0 {
		t.Errorf("%d events came twice", twice)
	}
}

// credentials: a login that ends is renewed without an error, and one of a deleted user is
// refused when it ends.
func (r refusals) credentials(t *testing.T) {
	const user, topic = "leaver", "credentials"
	s := open(t, kafkaConfig(t, r.cluster, topic, r.login(user)))
	events := sinktest.Events(2000)
	refused(t, s, events, "check auth", "SASL_AUTHENTICATION_FAILED")
	r.user(t, user)
	r.grant(t, user, topic, kadm.OpWrite, kadm.OpDescribe, kadm.OpCreate)
	sinktest.Deliver(t, s, events[:10])
	done := 10
	for started := time.Now(); time.Since(started) < kafkaSession+kafkaSession/2; done++ {
		if n, err := s.Write(t.Context(), events[done:done+1]); n != 1 || err != nil {
			t.Fatalf("%v after the login: Write = %d, %v", time.Since(started), n, err)
		}
		pause(t.Context(), 20*time.Millisecond)
	}
	r.dropUser(t, user)
	done += refused(t, s, events[done:], "check auth", "SASL_AUTHENTICATION_FAILED")
	r.user(t, user)
	sinktest.Deliver(t, s, events[done:done+20])
	if twice := wantInTopic(t, r.cluster, topic, events[:done+20]); twice > 0 {
		t.Errorf("%d events came twice", twice)
	}
}

// maxMessageBytes shrinks the largest batch of a topic: the broker refuses batches as a whole,
// and only the event that is too large by itself is permanent.
func (r refusals) maxMessageBytes(t *testing.T) {
	const topic, limit = "large", 100 << 10
	s := open(t, kafkaConfig(t, r.cluster, topic, nil))
	small, large := sinktest.Big(241, limit/4), sinktest.Big(1, 2*limit)[0].Data
	// Brokers apply a property some time after they have accepted it.
	probes, batch, last := small[20:220], small[220:240], small[240:]
	sinktest.Deliver(t, s, small[:20])
	r.set(t, topic, "max.message.bytes", strconv.Itoa(limit))
	for i := range probes {
		probes[i].Data = large
	}
	taken, err := failure(t, s, probes)
	if !sink.IsPermanent(err) || !strings.Contains(err.Error(), "max.message.bytes") {
		t.Fatalf("Write: %v, want a permanent error", err)
	}
	batch[13].Data = large
	if n, err := s.Write(t.Context(), batch); n != 13 || !sink.IsPermanent(err) {
		t.Fatalf("Write = %d, %v, want 13 and a permanent error", n, err)
	}
	sinktest.Deliver(t, s, batch[14:])
	r.set(t, topic, "max.message.bytes", strconv.Itoa(4*limit))
	last[0].Data = large
	eventually(t, "the topic takes large records again", func(ctx context.Context) (bool, error) {
		n, err := s.Write(ctx, last)
		return n == 1, err
	})
	want := slices.Concat(small[:20], probes[:taken], batch[:13], batch[14:], last)
	if twice := wantInTopic(t, r.cluster, topic, want); twice > 0 {
		t.Errorf("%d events came twice", twice)
	}
}

// record: a broker refuses a record for a reason that is not in the table, here the clock of
// the producer. The sink does not know whether that is the event or the topic.
func (r refusals) record(t *testing.T) {
	const topic = "checked"
	s := open(t, kafkaConfig(t, r.cluster, topic, nil))
	events := sinktest.Events(100)
	sinktest.Deliver(t, s, events[:10])
	r.set(t, topic, "message.timestamp.before.max.ms", "0")
	taken, err := failure(t, s, events[10:])
	if !sink.IsUnknown(err) || !strings.Contains(err.Error(), "INVALID_TIMESTAMP") {
		t.Errorf("Write: %v, want an unknown refusal", err)
	}
	r.set(t, topic, "message.timestamp.before.max.ms", "60000")
	sinktest.Deliver(t, s, events[10+taken:])
	if twice := wantInTopic(t, r.cluster, topic, events); twice > 0 {
		t.Errorf("%d events came twice", twice)
	}
}

// found opens a sink that notes the identities of its destination.
func (r refusals) found(t *testing.T, topic string) (s sink.Sink, identities func() []string) {
	t.Helper()
	var all []string
	env := sinktest.Env(t)
	env.Found = func(identity string) { all = append(all, identity) }
	return openIn(t, kafkaConfig(t, r.cluster, topic, nil), env), func() []string { return all }
}

// deletedTopic: the sink creates the topic again, and says that it is another one.
func (r refusals) deletedTopic(t *testing.T) { r.anotherTopic(t, "deleted", false) }

// topicOfAnother: so it does if another client was faster.
func (r refusals) topicOfAnother(t *testing.T) { r.anotherTopic(t, "recreated", true) }

func (r refusals) anotherTopic(t *testing.T, topic string, again bool) {
	t.Helper()
	s, identities := r.found(t, topic)
	events := sinktest.Events(60)
	sinktest.Deliver(t, s, events[:30])
	before := identities()
	if len(slices.Compact(before)) != 1 {
		t.Fatalf("the sink found %q, want one identity", before)
	}
	_, err := r.admin.DeleteTopic(t.Context(), topic)
	must(t, err)
	if again {
		eventually(t, "the topic can be created again", func(ctx context.Context) (bool, error) {
			_, err := r.admin.CreateTopic(ctx, 1, 1, nil, topic)
			return err == nil, err
		})
	}
	sinktest.Deliver(t, s, events[30:])
	if after := identities(); after[len(after)-1] == before[0] {
		t.Errorf("the sink found %q again", before[0])
	}
	wantInTopic(t, r.cluster, topic, events[30:])
}

// uncreatable: a topic that the broker refuses to create is an error that passes.
func (r refusals) uncreatable(t *testing.T) {
	const topic = "three"
	s := open(t, kafkaConfig(t, r.cluster, topic, func(c *kafka.Config) { c.Create.Replicas = 3 }))
	events := sinktest.Events(20)
	refused(t, s, events, "INVALID_REPLICATION_FACTOR", topic)
	_, err := r.admin.CreateTopic(t.Context(), 1, 1, nil, topic)
	must(t, err)
	sinktest.Deliver(t, s, events)
	if twice := wantInTopic(t, r.cluster, topic, events); twice > 0 {
		t.Errorf("%d events came twice", twice)
	}
	never := open(t, kafkaConfig(t, r.cluster, "nowhere", func(c *kafka.Config) { c.Create.Never = true }))
	refused(t, never, events, "topic nowhere does not exist", "remove create: false")
}
