// Package kafka is the sink that produces events to topics of an Apache Kafka
// cluster, or of one that speaks its protocol.
//
// Every event is one record as the Kafka binding of CloudEvents 1.0.2 has it. In
// binary mode the attributes are headers, "ce_<name>", with values as they are
// (UTF-8, not percent-encoded), the content type is the header "content-type",
// and the value is the data. With format cloudevents the value is the whole
// event as JSON. A record without data has an empty value, not a null one.
//
// # Keys and compaction
//
// The key is the object, "<cluster>/<group or core>/<resource>/<namespace>/<name>",
// the namespace left out for what has none: the CloudEvents subject behind the
// cluster, because clusters may share a topic. Control records have
// "<cluster>/<target>". The partition follows from the key as with Kafka's own
// clients (murmur2), so that all events of an object are in one partition, in
// order, those of another object that has the name later included, for as long as
// the topic keeps its number of partitions.
//
// Behind each deletion goes a tombstone, a record with the same key and a null
// value, so that a topic with cleanup.policy=compact ends with the last state of
// every object, and forgets those that are gone. `left` has none: the object
// exists, and its last event says that it left. Control records have none either.
// Without compaction tombstones are of no use, and can be turned off.
//
// # Topics
//
// The topic is a fixed name or a pattern, "k8s.{cluster}.{group}.{resource}", with
// a topic per resource as Debezium has one per table. The core group is "core"; a
// gap without a resource has "_informd" for the group and its op for the
// resource. Nothing is escaped: Kafka allows in the name of a topic every character that
// Kubernetes allows in a group or resource. Other characters of an API server, and
// a name of more than 249 characters, are refused: the event goes to the dead-letter
// queue. The sink creates a topic that does not exist, with the brokers' defaults or those
// of create. With create: false it waits until the topic exists, with an error that
// names it.
//
// A topic that somebody deletes is created again, and lacks all earlier events. If the sink has
// a single topic, the sink reports the id of the topic as its identity. With several topics a
// new one would change the identity, so the sink warns of a topic that has another id than
// before, as long as the sink is open.
//
// An unclean leader election makes a replica the leader that lacks acknowledged records. The
// sink notices offsets that go back, as long as it is open and nobody else writes to the topic:
// it warns, and reports the identity of a single topic again, behind an empty one.
//
// # Order and acknowledgement
//
// An event counts as delivered when all in-sync replicas of its partition have it,
// its tombstone as well. Different objects are pipelined, but only one record of each object
// is in flight at a time, and nothing is sent after a failure: so no
// later record of an object is kept whose predecessor is lost. The producer is
// idempotent: the broker stores a record once that is sent again after a lost answer. The
// producer never drops a record with an unknown outcome: it continues after the
// end of a Write, and the next Write waits for it first. Close waits, too, until its
// context ends. After that, or if informd is killed, a broker that was blocked at that
// moment may append an old record after newer ones of informd's next start, until the
// object's next event.
//
// Events beyond the first failure are sent again if they are not known to have
// arrived: delivery is at least once, and duplicates have the same ce_id.
//
// A record that is too large for the topic (max.message.bytes) can never be
// delivered. If records were refused together, each is sent alone first.
// Every other error is retried, denied permissions and refused credentials included.
//
// # Permissions
//
// The least a user needs: Write and Describe on the topics, Create unless create is
// false, and before Kafka 3.0 IdempotentWrite on the cluster.
//
// # What it was tested with
//
// test/sinks runs it against Apache Kafka 4.4.0, one broker and three, and kills, freezes and
// reconfigures them. The tests here run against kfake, the broker of franz-go that lives in
// the test's process and speaks Kafka's protocol with its checks of sequence numbers, sizes,
// credentials and permissions: it gives any answer at any time.
package kafka
