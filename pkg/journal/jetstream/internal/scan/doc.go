// Package scan reads a stream of JetStream: by pulls through a consumer (Puller), the last
// message of each subject (LastPerSubject), and single messages from the leader (Stream). It knows
// messages and sequences, and no events.
package scan
