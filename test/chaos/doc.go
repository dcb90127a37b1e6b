// Package chaos runs informd under random faults and checks the output of every sink
// against the history of etcd. informd runs as a process on a real etcd, two real API
// servers and a real nats-server.
//
//	rig ──── etcd, two API servers, nats-server, webhook receiver, informd
//	route ── the one address of the API servers: direct, or through the gateway
//	gateway ── an HTTP proxy with the faults of ingresses and load balancers
//	workload ── writes through the API servers
//	nemesis ─── breaks and heals parts of the rig, several at a time
//	oracle ──── etcd's own watch from revision 1: the [Truth]
//	consumers ─ one per sink, independent of informd: the [Sink]s
//	check ───── invariants over truth and sinks: the [Violation]s
//
// One seed decides all random choices, and the run prints it. A run with the same seed
// repeats the schedule of faults and the choices of the workload, but not the interleaving
// of the processes.
//
// An independent run (Options.Independent) has another load: kube-controller-manager,
// kube-scheduler and kwok run Deployments that scale and roll, Jobs that are removed after
// they succeed, namespaces that are deleted with their content, leases and Events. informd
// has one wildcard over everything that the API server serves.
//
// # Invariants
//
//	I1   the last event of every key is etcd's last state, or a deletion
//	I2   every revision is delivered, or is in a declared gap
//	I3   per UID the revisions rise and a deletion is last; a name has one holder
//	I4   every announced object that was deleted has a deletion
//	I5   every event is a state that etcd holds, with the same content
//	I6   no id is repeated in JetStream; elsewhere repeats are bounded, and those of live changes differ in nothing but the time
//	I7   a restart with nothing changed delivers nothing
//	I8   memory and journal stay within their limits
//	I9   after the last fault every event arrives in time
//	I10  a fault of one sink does not delay another
//	I11  no byte of a Secret's value is in any output
//	I12  one effective writer: no two events with one ordinal; a replica that does not lead writes to the webhook what was in flight, 8 requests
//	I13  informd exits only when the harness ends it
//	I14  ordinal and previous revision form an unbroken chain
//	I15  a snapshot has a begin and an end of one run, and every object in between
//	I16  a target behind a lagging API server reports that within 150 s
//	I17  the materialised view of the nats sink's stream equals etcd at the end
//	I18  dead letters of the source name only objects that no event can carry
//	I19  a hostile tenant delays no event of another namespace by 30 s
//	I20  selectors and change filters let nothing else through, and entered and left name the change that caused them
//	I21  after a power loss the log declares no loss
//	I22  replicas declare a loss only if none was left that the Lease counts on
//
// With a selector or a change filter, "state" and "revision" in I1 and I2 are those that it lets through. An
// object that stops to match ends with left. A time in which a namespace matched counts if the events say
// that informd noticed it.
//
// For I22 a witness reads the Lease in etcd five times a second, and notes which replicas run, reach the API
// servers and have a whole log. A replica that the Lease lists as in sync, or that has written the log last,
// must not have been so for the 25 s before another one takes over without all of the log.
//
// A gap excuses what it declares. Recovered "known" excuses objects that were created and
// deleted inside the range; "state" and "partial" excuse the states in between; the reason
// "trimmed" excuses as many events as it counts. A dead letter of the source excuses the
// revision that it names. The reason "selection" excuses a missing left. After the reason "journal"
// chains begin again, and ids that came before may come again until the snapshot ends. Nothing
// excuses a missing last state or deletion.
package chaos
