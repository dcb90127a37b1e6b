package message

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/informd/informd/pkg/event"
	"github.com/informd/informd/pkg/journal/jetstream/internal/scan"
)

// headerCopyOf marks the copy of the end of an object; it has the sequence of the
// original.
const headerCopyOf = "informd-copy-of"

// EndedSubject is the subject of the copy of a deletion event, by the id of the event. Root is
// the subject prefix with the cluster.
func EndedSubject(root, id string) string {
	prefix, id := root+"._informd.ended.", ObjectName(id)
	if s := prefix + event.EscapeToken(id); len(s) <= MaxSubject {
		return s
	}
	sum := sha256.Sum256([]byte(id))
	return prefix + hex.EncodeToString(sum[:])
}

// CopyOf returns the sequence of which a message is the copy, 0 if it is none.
func CopyOf(m scan.Message) uint64 {
	seq, err := strconv.ParseUint(m.Header.Get(headerCopyOf), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// NewCopy makes the message that repeats m, a deletion event.
func NewCopy(root string, e *event.Event, m scan.Message) *nats.Msg {
	// A copy that is sent again, as its acknowledgement was lost, is refused.
	repeated := &nats.Msg{Subject: EndedSubject(root, e.ID), Header: make(nats.Header, len(m.Header)+1), Data: m.Data}
	for name, values := range m.Header {
		if !strings.HasPrefix(name, "Nats-") { // the conditions on the original
			repeated.Header[name] = values
		}
	}
	repeated.Header[headerCopyOf] = []string{strconv.FormatUint(m.Seq, 10)}
	repeated.Header[js.ExpectedLastSubjSeqHeader] = []string{"0"}
	return repeated
}

// BoundSubjects matches the subjects of all begin and synced events.
func BoundSubjects(root string) []string {
	filter := func(op event.Op) string { return root + "._informd." + string(op) + ".*" }
	return []string{filter(event.Begin), filter(event.Synced)}
}
