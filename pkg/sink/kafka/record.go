package kafka

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/informd/informd/pkg/event"
)

// keyOf names the object for compaction. Subjects of control records have one
// slash at most, those of objects more, so that they do not meet.
func keyOf(e *event.Event) string { return e.Cluster + "/" + e.Subject() }

// newRecord makes the record of an event. It shares no bytes with the event: the
// producer may need them when Write has long returned.
func newRecord(e *event.Event, topic, key string, structured bool) *kgo.Record {
	r := &kgo.Record{Topic: topic, Key: []byte(key)}
	if structured {
		r.Value = e.AppendJSON(make([]byte, 0, len(e.Data)+512))
		r.Headers = []kgo.RecordHeader{{Key: "content-type", Value: []byte(event.ContentTypeJSON)}}
		return r
	}
	r.Headers = make([]kgo.RecordHeader, 0, 24)
	e.AppendAttributes(func(name, value string) {
		header := "ce_" + name
		if name == "datacontenttype" {
			header = "content-type"
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: header, Value: []byte(value)})
	})
	if r.Value = bytes.Clone(e.Data); r.Value == nil {
		r.Value = []byte{} // null would be a tombstone
	}
	return r
}

// sizeOf is about what the record takes before compression.
func sizeOf(r *kgo.Record) int {
	size := len(r.Key) + len(r.Value) + 16
	for i := range r.Headers {
		size += len(r.Headers[i].Key) + len(r.Headers[i].Value) + 4
	}
	return size
}
