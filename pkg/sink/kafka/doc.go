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
// gap that is about no resource has "_informd" for the group and its op for the
// resource. Nothing is escaped: what Kubernetes allows as a group or resource
// Kafka allows in the name of a topic. What an API server serves beyond that, and
// a name of more than 249 characters, is refused: the event goes to the dead
// letters. The sink creates topics only if it is told to, and with a topic missing
// it waits, with an error that names it.
//
// # Order and acknowledgement
//
// An event counts as delivered when all in-sync replicas of its partition have it,
// its tombstone as well. Different objects are pipelined, but of one object only
// one record is on its way at a time, and nothing is sent behind a failure: so no
// later record of an object is kept whose predecessor is lost. The producer is
// idempotent: what it sends again after a lost answer the broker stores once. A
// record whose fate is unknown is never given up: the producer goes on with it
// behind the end of a Write, and the next Write waits for it first. Close waits,
// too, as long as it may; where it may not any longer, or informd is killed, a
// broker that stands still just then may append an old record behind newer ones
// that come from informd's next start, until the object's next event.
//
// Events beyond the first failure are sent again if they are not known to have
// arrived: delivery is at least once, and ce_id tells duplicates.
//
// A record that is too large for the topic (max.message.bytes) can never be
// delivered. If records were refused together, each is tried by itself first.
// Everything else that goes wrong is worth another try, denied permissions and
// refused credentials included.
//
// # Permissions
//
// The least a user needs to have: Write and Describe on the topics, with
// createTopics also Create, and before Kafka 3.0 IdempotentWrite on the cluster.
//
// # What it was tested with
//
// The tests run against kfake, the broker of franz-go that lives in the test's
// process and speaks Kafka's protocol with its checks of sequence numbers, sizes,
// credentials and permissions. They do not run against Apache Kafka.
package kafka
