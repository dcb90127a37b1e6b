// Package embedded runs a nats-server with JetStream inside the process and guards its
// store. It is the base of the journal of type embedded. It knows no streams and no events:
// package jetstream builds the journal on the connection of [Server.Conn].
//
// An embedded nats-server without guards loses data in five ways, which this package
// prevents:
//
//   - Two processes on one directory destroy each other's messages. [Start] takes an advisory
//     lock first.
//   - Damage is silent. A missing block file or a flipped bit loses messages without an error,
//     and recovery cuts off the rest of such a block. Start checks the files before the server
//     does, keeps the originals of damaged files in a separate directory, saves the readable
//     messages, and reports the damage ([Server.Damaged]). A block that lost its end looks like
//     one with a torn last write. The length of each block, recorded once per second, shows the
//     difference. The server also removes files for
//     good reasons: a hard link to each file shows the content of the last removed one.
//   - A stream with damaged metadata looks like one that never existed. Start has a separate
//     record of the streams.
//   - After a crash or a write error the server brings superseded messages back, and may search
//     for one of them without end. Start records them as removed, and so does the guard.
//   - After a full disk JetStream stays off, also when space is free again. A guard watches the
//     free space and restarts the server; the connection stays.
//
// Clients of Config.Listen read the journal through a gate, which sends their requests to the
// server one at a time: see ARCHITECTURE.md.
package embedded
