// Package embedded runs a nats-server with JetStream inside the process and looks
// after its store: the base of the journal of type embedded. It knows no streams
// and no events; package jetstream builds the journal on the connection that
// [Server.Conn] returns, as it does on one to a server of the user's own.
//
// A nats-server that is embedded as it comes loses data in five ways, which this
// package is there to prevent:
//
//   - Two processes on one directory destroy each other's messages. [Start] takes
//     an advisory lock first.
//   - Damage is silent: a block file that is missing or that has a flipped bit
//     costs messages without a word, and recovery cuts off the rest of such a
//     block. Start looks at the files before the server does, keeps the originals
//     of what is damaged in a directory of its own, saves what can be read, and
//     says so ([Server.Damaged]). The server also removes files for good reasons: a
//     second name of each (a hard link) tells what was in one that went last.
//   - A stream whose metadata is damaged looks like one that never was. Start
//     knows from its own record which streams there were.
//   - After a crash it brings messages back that were superseded, and may never end
//     looking for one of them. Start writes down that they are gone.
//   - After the disk was full, JetStream stays off, even when there is room
//     again. A guard watches the free space and starts the server anew; the
//     connection lives on.
package embedded
