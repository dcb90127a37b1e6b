package schemagen

import (
	"slices"

	"github.com/informd/informd/pkg/event"
)

const (
	numberPattern   = `^(0|[1-9][0-9]*)$`
	revisionPattern = `^[1-9][0-9]*$`
	secondsPattern  = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$`
	timePattern     = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$`
)

// Event returns the schema of an event in CloudEvents JSON form. It is open for
// attributes that later versions may add; consumers should be as well.
func Event() ([]byte, error) {
	var types, conditions []any
	for _, op := range event.Ops() {
		e := event.Event{Op: op}
		types = append(types, e.Type())
		conditions = append(conditions, object{
			"if":   object{"properties": object{"op": object{"const": op}}, "required": []string{"op"}},
			"then": ofOperation(op, e.Type()),
		})
	}
	properties := attributes()
	properties["op"] = described(object{"enum": event.Ops()}, "The operation that the event reports.")
	properties["type"] = described(object{"enum": types}, "The operation as a CloudEvents type.")
	properties["data"] = described(object{"type": "object"}, "The object and its additions, by operation. Absent in begin, synced and gap, and for an object that was too large for the journal.")
	return encode(object{
		"$schema":     dialect,
		"title":       "An event of informd",
		"description": "One change of one Kubernetes object, or a control event of a target, in CloudEvents 1.0 JSON form. Later versions may add attributes.",
		"type":        "object",
		"properties":  properties,
		"required":    []string{"specversion", "id", "source", "type", "subject", "time", "cluster", "op", "group", "replay"},
		"allOf":       conditions,
		"$defs":       object{"fieldManager": theActor(), "ownerChain": theOwner()},
		// Data and its type come together.
		"dependentRequired": object{"data": []string{"datacontenttype"}, "datacontenttype": []string{"data"}},
	})
}

func described(schema object, text string) object {
	schema["description"] = text
	return schema
}

// attributes are those of [event.Event.AppendJSON] that do not depend on the operation.
func attributes() object {
	text := func(about string) object { return described(object{"type": "string", "minLength": 1}, about) }
	number := func(pattern, about string) object {
		return described(object{"type": "string", "pattern": pattern}, about)
	}
	return object{
		"specversion":         described(object{"const": "1.0"}, "The version of CloudEvents."),
		"id":                  text("The same for the same change, however often informd finds it. A run adds :r<run>, an epoch :e<epoch>."),
		"source":              described(object{"type": "string", "pattern": "^informd/."}, "informd/<cluster>."),
		"subject":             text("<group or core>/<resource>/<namespace>/<name>, without the namespace for cluster-scoped objects; the target's name in control events, or * for all targets."),
		"time":                described(object{"type": "string", "format": "date-time", "pattern": timePattern}, "When informd observed the change, in UTC with microseconds. It is no order key."),
		"datacontenttype":     described(object{"const": "application/json"}, "The media type of data."),
		"cluster":             text("The configured name of the cluster."),
		"group":               described(object{"type": "string"}, "The API group, empty for the core group."),
		"version":             text("The API version that the resource is watched in."),
		"resource":            text("The plural name of the resource."),
		"kind":                text("The kind of the object."),
		"namespace":           text("The object's namespace, if it has one."),
		"name":                text("The object's name."),
		"uid":                 text("The object's uid."),
		"resourceversion":     number(revisionPattern, "The revision of the change."),
		"prevresourceversion": number(revisionPattern, "The revision of this uid's event before this one; none for its first event."),
		"ordinal":             described(object{"type": "integer", "minimum": 1}, "1 for the first event of this uid, then 2, and so on."),
		"epoch":               described(object{"type": "integer", "minimum": 1}, "The number of the history that resourceversion belongs to; absent is 0. A new history begins when etcd is restored to an older state, or when objects return after informd announced them as deleted. Compare epochs first: the higher one is newer. Compare revisions within one epoch only."),
		"run":                 number(revisionPattern, "The snapshot, re-snapshot, rewind or redelivery that the event belongs to; begin and synced of a snapshot have the same run. Absent for a single event."),
		"replay":              described(object{"type": "boolean"}, "Whether the event was replayed: found by a reconcile or a history walk, or part of a re-snapshot, and not seen live."),
		"fromrv":              number(numberPattern, "In a gap: the last revision that is known to be complete. 0 if the gap concerns one sink."),
		"torv":                number(numberPattern, "In a gap: the last revision that may be missing. 0 if the gap concerns one sink."),
		"reason":              text("In a gap: why there is one, for example expired, rollback or journal. Later versions may add reasons."),
		"recovered": described(object{"enum": []event.Recovered{event.RecoveredKnown, event.RecoveredPartial, event.RecoveredState}},
			"In a gap: what informd recovered of the range."),
		"trimmed": number(revisionPattern, "In a gap of one sink: the number of events that the journal removed before the sink read them."),
	}
}

// ofOperation is what holds for the events of one operation.
func ofOperation(op event.Op, kind string) object {
	required, properties := []string{}, object{"type": object{"const": kind}}
	none := func(names ...string) {
		for _, name := range names {
			properties[name] = false
		}
	}
	if op.Control() {
		none("namespace", "name", "uid", "prevresourceversion", "ordinal")
	} else {
		required = append(required, "version", "resource", "kind", "name", "uid", "resourceversion", "ordinal")
	}
	if op != event.Gap {
		none("fromrv", "torv", "reason", "recovered", "trimmed")
	}
	switch op {
	case event.Gap:
		none("data")
		required = append(required, "fromrv", "torv", "reason", "recovered")
	case event.Begin, event.Synced:
		none("data")
		required = append(required, "resourceversion", "run")
	case event.State:
		required, properties["data"] = append(required, "data"), stateData()
	case event.Modified:
		properties["data"] = changedData()
	case event.Left:
		properties["data"] = leftData() // none if the state in which it left is not known
	case event.Deleted:
		properties["data"] = deletedData()
	default:
		properties["data"] = objectData()
	}
	slices.Sort(required)
	return object{"properties": properties, "required": required}
}

func objectData() object {
	return object{"type": "object", "required": []string{"object"}, "properties": object{
		"object": theObject(), "fieldManager": reference("fieldManager"), "ownerChain": reference("ownerChain"),
	}}
}

// reference stands for what several operations have.
func reference(name string) object { return object{"$ref": "#/$defs/" + name} }

func theActor() object {
	text := func(about string) object { return described(object{"type": "string", "minLength": 1}, about) }
	return described(object{"type": "object", "required": []string{"time"}, "properties": object{
		"manager":     text("The field manager: what the client calls itself."),
		"operation":   text("Apply or Update."),
		"subresource": text("Such as status; none if the object itself was written."),
		"time":        described(object{"type": "string", "format": "date-time", "pattern": secondsPattern}, "When, in UTC."),
	}}, "The client that wrote the object last, by the newest entry of its managedFields, if the entry of the config has fieldManager: true. Best effort.")
}

func theOwner() object {
	text := func() object { return described(object{"type": "string", "minLength": 1}, "As in ownerReferences.") }
	link := object{"type": "object", "required": []string{"kind", "apiVersion", "name", "uid"}, "properties": object{
		"kind": text(), "apiVersion": text(), "name": text(), "uid": text(),
		"complete": described(object{"const": false}, "In the last one: whether this has a controller is not known."),
	}}
	return described(object{"type": "array", "minItems": 1, "items": link},
		"The controllers that the object belongs to, from the direct one up to the root, if the entry of the config has ownerChain: true; none without a controller. Best effort.")
}

// leftData has no actor: who wrote last did not end it.
func leftData() object {
	return object{"type": "object", "required": []string{"object"}, "properties": object{"object": theObject(), "ownerChain": reference("ownerChain")}}
}

func changedData() object {
	data := objectData()
	properties, _ := data["properties"].(object)
	properties[event.MemberOld] = described(object{"type": "object"}, "The object in the event before of this uid, if changes of the entry has oldObject and that object is known.")
	properties[event.MemberChanged] = described(object{"type": "array", "items": object{"type": "string", "minLength": 1}, "uniqueItems": true},
		"The paths whose values differ from the event before of this uid, if changes of the entry has changed.")
	properties[event.MemberPatch] = described(object{"type": "array", "items": object{
		"type":       "object",
		"required":   []string{"op", "path"},
		"properties": object{"op": object{"enum": []string{"add", "remove", "replace"}}, "path": object{"type": "string"}, "value": true},
	}}, "A JSON patch (RFC 6902) from the object in the event before of this uid to this object, if changes of the entry has patch.")
	return data
}

func theObject() object {
	return described(object{"type": "object"}, "The object at this revision, normalised. Without data, the object was too large for the journal, or is unreadable there.")
}

func deletedData() object {
	return object{"type": "object", "required": []string{"final"}, "properties": object{
		"object":     described(object{"type": "object"}, "The last known state, normalised; none if only the identity is known."),
		"final":      described(object{"type": "boolean"}, "Whether object is certainly the last state."),
		"ownerChain": reference("ownerChain"),
	}}
}

func stateData() object {
	return object{"type": "object", "required": []string{"state"}, "properties": object{
		"state":  described(object{"type": "string", "minLength": 1}, "The state of the target."),
		"reason": described(object{"type": "string"}, "The reason for the state, if it is not live."),
	}}
}
