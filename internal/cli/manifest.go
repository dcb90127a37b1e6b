package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// redacted begins each value that informd has replaced by a hash: docs/shaping.md.
const redacted = "hmac-sha256:"

// errNoObject says that an event has no object, or not all of it.
var errNoObject = errors.New("the event has no whole object: the resource has mode: metadata, or the object was too large for the journal")

// manifestOf makes of a stored object what kubectl apply takes. It removes what the API server or a
// controller sets, and values that were redacted. Notes say what is missing, a sentence each.
func manifestOf(object []byte) (manifest map[string]any, notes []string, err error) {
	if err := decodeNumbers(object, &manifest); err != nil || manifest["apiVersion"] == nil || manifest["kind"] == nil {
		return nil, nil, errNoObject
	}
	metadata, _ := manifest["metadata"].(map[string]any)
	if metadata == nil {
		return nil, nil, errNoObject
	}
	if owners, _ := metadata["ownerReferences"].([]any); len(owners) > 0 {
		notes = append(notes, "It had an owner. The owner references are left out: with an owner that is gone, the garbage collector would delete it again.")
	}
	if finalizers, _ := metadata["finalizers"].([]any); len(finalizers) > 0 {
		notes = append(notes, fmt.Sprintf("It keeps its finalizers %s.", listed(finalizers)))
	}
	for _, key := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "ownerReferences",
	} {
		delete(metadata, key)
	}
	delete(manifest, "status")
	const identity = 3 // apiVersion, kind and metadata
	if len(manifest) == identity {
		notes = append(notes, "Only its metadata was stored. If the resource has mode: metadata, or keep, the rest is unknown.")
	}
	clearKind(manifest, metadata)
	var hidden []string
	for _, key := range slices.Sorted(maps.Keys(manifest)) {
		if stripHidden(manifest[key], key, &hidden) {
			delete(manifest, key)
		}
	}
	if len(hidden) > 0 {
		notes = append(notes, fmt.Sprintf("informd redacted these values, so they are missing: %s.", strings.Join(hidden, ", ")))
	}
	return manifest, notes, nil
}

// stripHidden removes redacted values below a value, and reports whether the value itself is one.
func stripHidden(value any, path string, hidden *[]string) bool {
	switch v := value.(type) {
	case string:
		if strings.HasPrefix(v, redacted) {
			*hidden = append(*hidden, path)
			return true
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if stripHidden(v[key], path+"."+key, hidden) {
				delete(v, key)
			}
		}
	case []any:
		for i := range v {
			if stripHidden(v[i], fmt.Sprintf("%s[%d]", path, i), hidden) {
				v[i] = ""
			}
		}
	}
	return false
}

// listed joins values with commas.
func listed(list []any) string {
	var all []string
	for _, one := range list {
		all = append(all, fmt.Sprint(one))
	}
	return strings.Join(all, ", ")
}

// clearKind removes what controllers and the API server set in objects of built-in kinds, and
// refuse or misread in a new object.
func clearKind(manifest, metadata map[string]any) {
	spec, _ := manifest["spec"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	switch group, _, _ := strings.Cut(fmt.Sprint(manifest["apiVersion"]), "/"); fmt.Sprint(manifest["kind"], " ", group) {
	case "Pod v1":
		// The volume with the token stays: admission uses it again.
		delete(spec, "nodeName")            // the scheduler chooses
		delete(spec, "ephemeralContainers") // only the API server's subresource takes them
	case "Service v1":
		delete(spec, "clusterIP")
		if ips, _ := spec["clusterIPs"].([]any); len(ips) > 0 && ips[0] == "None" {
			spec["clusterIP"] = "None"
		}
		delete(spec, "clusterIPs")
		delete(spec, "healthCheckNodePort")
		ports, _ := spec["ports"].([]any)
		for _, port := range ports {
			if p, _ := port.(map[string]any); p != nil {
				delete(p, "nodePort")
			}
		}
	case "PersistentVolumeClaim v1":
		delete(spec, "volumeName")
		dropKeys(annotations, "pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/storage-provisioner")
	case "PersistentVolume v1":
		delete(spec, "claimRef")
	case "Namespace v1":
		delete(manifest, "spec") // its finalizers
	case "ServiceAccount v1":
		delete(manifest, "secrets")
	case "Job batch":
		clearJob(spec, metadata)
	case "Deployment apps":
		dropKeys(annotations, "deployment.kubernetes.io/")
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

// clearJob removes the selector and labels that the API server generated from the UID.
func clearJob(spec, metadata map[string]any) {
	if manual, _ := spec["manualSelector"].(bool); manual {
		return
	}
	delete(spec, "selector")
	template, _ := spec["template"].(map[string]any)
	inner, _ := template["metadata"].(map[string]any)
	for _, m := range []map[string]any{metadata, inner} {
		labels, _ := m["labels"].(map[string]any)
		dropKeys(labels, "batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name")
	}
}

// dropKeys removes the keys with one of these beginnings.
func dropKeys(from map[string]any, beginnings ...string) {
	maps.DeleteFunc(from, func(key string, _ any) bool {
		return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(key, b) })
	})
}
