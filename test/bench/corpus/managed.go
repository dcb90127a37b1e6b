package corpus

import (
	"encoding/json"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managedBy is the managedFields entry of a manager that has set these top-level
// fields of an object.
func managedBy(manager, subresource string, object any, fields ...string) (metav1.ManagedFieldsEntry, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return metav1.ManagedFieldsEntry{}, err
	}
	var all map[string]any
	if err := json.Unmarshal(encoded, &all); err != nil {
		return metav1.ManagedFieldsEntry{}, err
	}
	owned := make(map[string]any)
	for _, f := range fields {
		if value, ok := all[f]; ok {
			owned[f] = value
		}
	}
	if metadata, ok := owned["metadata"].(map[string]any); ok {
		for _, serverSet := range []string{"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
			delete(metadata, serverSet)
		}
	}
	raw, err := json.Marshal(fieldSet(owned))
	at := began()
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)), Subresource: subresource,
	}, err
}

// fieldSet is a value as FieldsV1 names its fields.
func fieldSet(value any) map[string]any {
	set := make(map[string]any)
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			if set["f:"+k] = fieldSet(v); atomic(k) {
				set["f:"+k] = map[string]any{}
			}
		}
	case []any:
		for _, v := range value {
			if key := listKey(v); key != "" {
				set[key] = fieldSet(v)
				set[key].(map[string]any)["."] = map[string]any{} //nolint:forcetypeassert // it was made a line above
			}
		}
	}
	return set
}

// atomic reports whether a list is owned as a whole.
func atomic(list string) bool {
	switch list {
	case "args", "tolerations", "sources", "items", "containerStatuses":
		return true
	default:
		return false
	}
}

// listKey is how FieldsV1 names an element of a list of maps, "" if it is none.
func listKey(element any) string {
	m, ok := element.(map[string]any)
	if !ok {
		return ""
	}
	for _, key := range []string{"uid", "mountPath", "containerPort", "ip", "name", "type", "key"} {
		switch v := m[key].(type) {
		case string:
			return `k:{"` + key + `":` + strconv.Quote(strings.ReplaceAll(v, `"`, "")) + `}`
		case float64:
			return `k:{"` + key + `":` + strconv.Itoa(int(v)) + `,"protocol":"TCP"}`
		}
	}
	return ""
}
