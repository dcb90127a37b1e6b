// Package kafka is the sink that produces events to topics of an Apache Kafka
// cluster, or of one that speaks its protocol. docs/sinks/kafka.md has the form of
// the records, the topics, and the permissions.
//
// Every event is one record as the Kafka binding of CloudEvents 1.0.2 has it. The
// key is the object, behind the cluster because clusters may share a topic. So all
// events of an object are in one partition, in order, those of another object that
// has the name later included. Nothing is escaped in the name of a topic: Kafka
// allows in it every character that Kubernetes allows in a group or resource.
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
// # Lost topics
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
// # What it was tested with
//
// test/sinks runs it against Apache Kafka 4.4.0, one broker and three, and kills, freezes and
// reconfigures them. The tests here run against kfake, the broker of franz-go that lives in
// the test's process and speaks Kafka's protocol with its checks of sequence numbers, sizes,
// credentials and permissions: it gives any answer at any time.
package kafka
