package config

import "time"

// Resource is one entry of resources.
type Resource struct {
	// Pos is where the entry begins.
	Pos Pos `yaml:"-"`
	// Group is the API group; empty or "core" for the core group. It may be a glob
	// (path.Match).
	Group string `yaml:"group"`
	// Version is the API version. Default: the version that the server prefers, also with a
	// glob in Group.
	Version string `yaml:"version"`
	// Resource is the plural name, "deployments", or a glob. "deployments.apps" and
	// "deployments.v1.apps" have group and version in them. With a glob here or in Group the
	// entry is a wildcard: it matches resources that no other entry names. The first of
	// several wildcards has priority.
	Resource string `yaml:"resource" required:""`
	// ExcludeResources lists resources that a wildcard does not match: globs of plural names,
	// or "<group or core>/<plural name>".
	ExcludeResources []string `yaml:"excludeResources"`
	// Mode is [ModeFull] for whole objects, or [ModeMetadata] for their metadata alone.
	Mode string `yaml:"mode" enum:"full,metadata"`
	// Namespaces lists names and globs. Default: all namespaces.
	Namespaces []string `yaml:"namespaces" absent:"all namespaces"`
	// ExcludeNamespaces lists names and globs of namespaces that informd filters out.
	ExcludeNamespaces []string `yaml:"excludeNamespaces"`
	// NamespaceSelector is a label selector of Namespaces. If a Namespace starts or stops to
	// match, its objects are emitted as entered or left.
	NamespaceSelector string `yaml:"namespaceSelector"`
	// Scope is [ScopeCluster], one watch of all namespaces, or [ScopeNamespaced], one watch for
	// each namespace, which needs exact names. [ScopeAuto] is namespaced for exact names, and
	// cluster otherwise.
	Scope string `yaml:"scope" enum:"auto,cluster,namespaced"`
	// LabelSelector selects objects by label, as in "app in (web,api)". The API server
	// evaluates it.
	LabelSelector string `yaml:"labelSelector"`
	// FieldSelector selects objects by field, as in "spec.nodeName!=". The API server
	// evaluates it.
	FieldSelector string `yaml:"fieldSelector"`
	// Keep lists the paths of an object that its events have. Identity (name, uid) always
	// stays. Default: the whole object.
	Keep []string `yaml:"keep" absent:"the whole object"`
	// Omit lists paths that informd removes, beside managedFields and the last-applied
	// annotation.
	Omit []string `yaml:"omit"`
	// Redact lists paths whose values informd replaces by a keyed hash, and /regular
	// expressions/ (RE2): informd replaces the text that they match in any value.
	Redact []string `yaml:"redact"`
	// EmitWhen says which changes of an object become modified events.
	EmitWhen EmitWhen `yaml:"emitWhen"`
	// FieldManager adds the last field manager to events: manager, operation, subresource
	// and time.
	FieldManager bool `yaml:"fieldManager"`
	// OwnerChain adds the controllers above the object to events, up to the root.
	OwnerChain bool `yaml:"ownerChain"`
	// Changes lists what a modified event has beside the object: the changed paths, a JSON
	// patch (RFC 6902), the object before the change.
	Changes OneOrMore `yaml:"changes" enum:"changed,patch,oldObject" absent:"the object alone"`
	// ResnapshotEvery is the period in which each sink gets every object again, as the
	// journal has it; 0 is never.
	ResnapshotEvery time.Duration `yaml:"resnapshotEvery"`
}

// EmitWhen says which changes of an object become modified events. Other operations
// ignore it.
type EmitWhen struct {
	// Changed lists paths, or spec, status and metadata: informd emits a modified event only
	// if one of them has changed.
	Changed OneOrMore `yaml:"changed" absent:"every change"`
	// Noop is false to emit no event that differs from the one before in nothing but
	// resourceVersion. Default: true.
	Noop bool `yaml:"noop"`
}

// OneOrMore is a list. One item alone may stand without it.
type OneOrMore []string

// Begin is called before an entry of resources is decoded.
func (r *Resource) Begin(at Pos) {
	*r = Resource{Pos: at, Mode: ModeFull, Scope: ScopeAuto, EmitWhen: EmitWhen{Noop: true}}
}
