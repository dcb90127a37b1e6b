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
	properties["op"] = described(object{"enum": event.Ops()}, "What happened.")
	properties["type"] = described(object{"enum": types}, "The operation as a CloudEvents type.")
	properties["data"] = described(object{"type": "object"}, "The object and what belongs to it, by operation. There is none in begin, synced and gap; modified may have changed, patch and old.")
	return encode(object{
		"$schema":     dialect,
		"title":       "An event of informd",
		"description": "One change of one Kubernetes object, or a control record about a target, in CloudEvents 1.0 JSON form. Later versions may add attributes.",
		"type":        "object",
		"properties":  properties,
		"required":    []string{"specversion", "id", "source", "type", "subject", "time", "cluster", "op", "group", "replay"},
		"allOf":       conditions,
		"$defs":       object{"actor": theActor(), "owner": theOwner()},
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
		"id":                  text("The same for the same change, whenever and however it is found."),
		"source":              described(object{"type": "string", "pattern": "^informd/."}, "informd/<cluster>."),
		"subject":             text("<group or core>/<resource>/<namespace>/<name>, without the namespace for cluster-scoped objects; the target's name in control records."),
		"time":                described(object{"type": "string", "format": "date-time", "pattern": timePattern}, "When informd observed the change, in UTC with microseconds. It is no order key."),
		"datacontenttype":     described(object{"const": event.ContentType}, "The media type of data."),
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
		"run":                 number(revisionPattern, "What the event belongs to: the snapshot whose begin and synced have the same run, a round of resync, or a rewind or a dead letter that was delivered again. None for an event by itself."),
		"replay":              described(object{"type": "boolean"}, "Whether a comparison has found the change, or the object is announced anew, in contrast to what was seen live."),
		"fromrv":              number(numberPattern, "In a gap: the last revision that is known to be complete."),
		"torv":                number(numberPattern, "In a gap: the last revision that may be missing."),
		"reason":              text("In a gap: why there is one, for example expired, rollback or journal. Later versions may add reasons."),
		"recovered": described(object{"enum": []event.Recovered{event.RecoveredKnown, event.RecoveredPartial, event.RecoveredState}},
			"In a gap: what came out all the same."),
		"trimmed": number(revisionPattern, "In a gap of one sink: how many events the journal had dropped before the sink read them."),
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
	case event.Begin:
		none("data")
		required = append(required, "resourceversion", "run")
	case event.Synced:
		none("data")
		required = append(required, "resourceversion")
	case event.State:
		required, properties["data"] = append(required, "data"), stateData()
	case event.Modified:
		required, properties["data"] = append(required, "data"), changedData()
	case event.Left:
		properties["data"] = leftData() // none if the state in which it left is not known
	case event.Deleted:
		required, properties["data"] = append(required, "data"), deletedData()
	default:
		required, properties["data"] = append(required, "data"), objectData()
	}
	slices.Sort(required)
	return object{"properties": properties, "required": required}
}

func objectData() object {
	return object{"type": "object", "required": []string{"object"}, "properties": object{
		"object": theObject(), "actor": reference("actor"), "owner": reference("owner"),
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
	}}, "Who wrote the object last, by the newest entry of its managedFields, if the entry of the config has actor: true. Best effort.")
}

func theOwner() object {
	text := func() object { return described(object{"type": "string", "minLength": 1}, "As in ownerReferences.") }
	link := object{"type": "object", "required": []string{"kind", "apiVersion", "name", "uid"}, "properties": object{
		"kind": text(), "apiVersion": text(), "name": text(), "uid": text(),
		"complete": described(object{"const": false}, "In the last one: whether this has a controller is not known."),
	}}
	return described(object{"type": "array", "minItems": 1, "items": link},
		"The controllers that the object belongs to, from the direct one up to the root, if the entry of the config has owner: true; none without a controller. Best effort.")
}

// leftData has no actor: who wrote last did not end it.
func leftData() object {
	return object{"type": "object", "required": []string{"object"}, "properties": object{"object": theObject(), "owner": reference("owner")}}
}

func changedData() object {
	data := objectData()
	properties, _ := data["properties"].(object)
	properties[event.MemberOld] = described(object{"type": "object"}, "The object in the event of this uid before this one, if the entry's changes has old and that object is known.")
	properties[event.MemberChanged] = described(object{"type": "array", "items": object{"type": "string", "minLength": 1}, "uniqueItems": true},
		"The paths to what is another than in the event of this uid before this one, if the entry's changes has paths.")
	properties[event.MemberPatch] = described(object{"type": "array", "items": object{
		"type":       "object",
		"required":   []string{"op", "path"},
		"properties": object{"op": object{"enum": []string{"add", "remove", "replace"}}, "path": object{"type": "string"}, "value": true},
	}}, "A JSON patch (RFC 6902) that makes object of the one in the event of this uid before this one, if the entry's changes has patch.")
	return data
}

func theObject() object {
	return described(object{"type": "object"}, "The object as of this revision, normalised.")
}

func deletedData() object {
	return object{"type": "object", "required": []string{"final"}, "properties": object{
		"object": described(object{"type": "object"}, "The last known state, normalised; none if only the identity is known."),
		"final":  described(object{"type": "boolean"}, "Whether object is surely the last state."),
		"owner":  reference("owner"),
	}}
}

func stateData() object {
	return object{"type": "object", "required": []string{"state"}, "properties": object{
		"state":  described(object{"type": "string", "minLength": 1}, "How the target is doing from now on."),
		"reason": described(object{"type": "string"}, "Why, where not all is well."),
	}}
}
