// Package chaos tries to make informd lose something. It runs informd as a
// process on a real etcd, two real API servers and a real nats-server, writes at
// random, breaks at random, and then holds what every sink received against what
// etcd recorded.
//
//	rig ──── etcd, two API servers, nats-server, webhook receiver, informd
//	route ── the one address of the API servers: straight, or through the gateway
//	gateway ── an HTTP proxy with the faults of ingresses and load balancers
//	workload ── writes through the API servers
//	nemesis ─── breaks and heals parts of the rig, several at a time
//	oracle ──── etcd's own watch from revision 1: the [Truth]
//	consumers ─ one per sink, independent of informd: the [Sink]s
//	check ───── invariants over truth and sinks: the [Violation]s
//
// Everything that is chosen at random is chosen from one seed, which is printed.
// The schedule of faults and the choices of the workload repeat with it; the
// interleaving of the processes does not.
//
// An independent run (Options.Independent) has another load: kube-controller-manager,
// kube-scheduler and kwok run Deployments that scale and roll, Jobs that are removed
// after they succeed, namespaces that are deleted with all that is in them, leases and
// Events. informd has one wildcard over everything that the API server serves.
//
// # What is checked
//
//	I1   the last thing delivered of every key is etcd's last state, or a deletion
//	I2   every revision is delivered, or lies in a gap that the sink was told of
//	I3   per UID the revisions rise, a deletion is last, a name has one holder
//	I4   what was announced and is gone has a deletion
//	I5   nothing is delivered that etcd does not hold, with the same content
//	I6   no id is repeated in JetStream; elsewhere repeats are bounded
//	I7   a restart with nothing changed delivers nothing
//	I8   memory and journal stay within their budgets
//	I9   after the last fault everything arrives in time
//	I10  a fault of one sink does not delay another
//	I11  no byte of a Secret's value comes out anywhere
//	I12  one effective writer: no two events with one ordinal
//	I13  informd ends only when it is made to
//	I14  ordinal and previous revision form an unbroken chain
//	I15  a snapshot has a begin and an end of one run, and every object in between
//	I16  a target that an API server keeps behind says so within 150 s
//	I17  the materialised view of the nats sink's stream equals etcd at the end
//	I18  dead letters of the source name only objects that no event can carry
//	I19  a hostile tenant delays no event of another namespace by 30 s
//
// A gap excuses what it declares: recovered "known" all but objects born and dead
// inside the range, "state" and "partial" the states in between, reason "trimmed"
// as many events as it counts. A dead letter of the source excuses the revision that it
// names. Nothing excuses a missing last state or deletion.
package chaos
