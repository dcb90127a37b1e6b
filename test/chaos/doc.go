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
// # Faults
//
//	N1   informd killed, stopped, down over a compaction or for two minutes; a power loss: what the log has
//	     not synced is cut back at random, also over a compaction
//	N2   informd frozen
//	N3   an API server killed or stopped, both killed
//	N4   an API server that lags behind etcd, with clients connected to it
//	N5   etcd compacted to the head, defragmented, killed
//	N6   etcd restored from a copy without new revisions; or with etcdutl (raised revision, older ones
//	     compacted), with stopped and with running API servers
//	N7   watches reset, half open, dripping byte by byte, the API server out of reach
//	N9   a CRD deleted and created again, a CRD's schema edited
//	N10  permissions revoked and granted
//	N11  the nats-server of the sink killed, frozen
//	N13  (and N14) sinks that are slow or hang; a webhook that answers 429, 500 or 400, answers late, or
//	     takes the event without an answer
//	N15  the disk of one journal full, read-only
//	N16  the files of the log cut, flipped, removed while informd is down
//	N17  informd killed in the middle of a reconcile
//	N19  of a pair: one killed, frozen, lost with its volume, or cut off from the API servers, the sinks or
//	     the other one; each leader killed as soon as the former one is back; a changed config rolled out,
//	     also without volumes
//	N20  an HTTP proxy answers 404, 502 or 503, for all requests, one API group, or one of two API servers;
//	     or 403 to lists
//	N21  the proxy buffers responses, delays headers, speaks HTTP/1.1 only, closes idle connections, or
//	     freezes
//	N22  two API servers behind one address; one lags behind etcd, was restarted over a compaction, or gets
//	     nothing from etcd
//	N24  an operator rewinds a sink, re-snapshots a resource for all sinks or one, deletes a sink's stream
//	N25  a hostile tenant with the rights of the ClusterRole admin in one namespace, who fills the journal
//	     twice
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
//	I13  informd exits only when the harness ends it, or since it reads damage that N16 has left
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
// chains begin again, and ids that came before may come again until the snapshot ends; the id of a deletion
// also later, where a restore had brought the object back. Nothing excuses a missing last state or deletion.
package chaos
