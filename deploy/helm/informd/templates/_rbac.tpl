{{/* The permissions of config.resources, as `informd rbac` prints them. A test compares both. */}}

{{/* The name of the roles: that of `informd rbac --name --namespace`. */}}
{{- define "informd.roleName" -}}
{{- $account := include "informd.serviceAccountName" . -}}
{{- if and (eq $account "informd") (eq .Release.Namespace "informd") -}}
informd
{{- else -}}
{{- printf "informd:%s:%s" .Release.Namespace $account -}}
{{- end -}}
{{- end -}}

{{/* The entries of config.resources, as JSON: group and resource as RBAC has them, the only name
that they select, and where they are watched. RBAC has no patterns but "*". */}}
{{- define "informd.entries" -}}
{{- $entries := list -}}
{{- range $i, $r := .Values.config.resources -}}
  {{- if kindIs "string" $r }}{{ $r = dict "resource" $r }}{{ end -}}
  {{- $resource := $r.resource -}}
  {{- $group := $r.group | default "" -}}
  {{- if contains "." $resource -}}
    {{- if not (kindIs "invalid" $r.group) -}}
      {{- fail (printf "config.resources[%d]: %q names the group already: remove the key group" $i $resource) -}}
    {{- end -}}
    {{- $parts := splitn "." 2 $resource -}}
    {{- $resource = $parts._0 -}}
    {{- $group = regexReplaceAll "^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?([.]|$)" $parts._1 "" -}}
  {{- end -}}
  {{- if eq $group "core" }}{{ $group = "" }}{{ end -}}
  {{- if not (and (regexMatch "^[a-z*?[][a-z0-9*?^\\[\\]-]*$" $resource) (regexMatch "^([a-z0-9*?[][a-z0-9.*?^\\[\\]-]*)?$" $group)) -}}
    {{- fail (printf "config.resources[%d]: no permissions follow from resource %q in group %q. Write the resource as kubectl does (pods, deployments.apps), or set rbac.create: false and apply the output of informd rbac" $i $resource $group) -}}
  {{- end -}}
  {{- $namespaces := $r.namespaces | default list -}}
  {{- $patterned := or $r.excludeNamespaces $r.namespaceSelector (regexMatch "[*?[]" (join " " $namespaces)) -}}
  {{- $entries = append $entries (dict
    "group" (ternary "*" $group (regexMatch "[*?[]" $group))
    "resource" (ternary "*" $resource (regexMatch "[*?[]" $resource))
    "name" (regexReplaceAll "^.*=" (regexFind "(^|,)metadata[.]name==?[^,]+" ($r.fieldSelector | default "")) "")
    "ownerChain" (eq $r.ownerChain true)
    "selects" (not (empty $r.namespaceSelector))
    "clusterWide" (or (eq (toString $r.scope) "cluster") (empty $namespaces) (not (empty $patterned)))
    "namespaces" $namespaces) -}}
{{- end -}}
{{- toJson $entries -}}
{{- end -}}

{{/* The rules to watch entries: one rule per group and name. */}}
{{- define "informd.watchRules" -}}
{{- $scopes := dict -}}
{{- range . -}}
  {{- $scope := printf "%s %s" .group .name -}}
  {{- $_ := set $scopes $scope (append (get $scopes $scope | default list) .resource) -}}
{{- end -}}
{{- $rules := list -}}
{{- range $scope := keys $scopes | sortAlpha -}}
  {{- $resources := get $scopes $scope | uniq | sortAlpha -}}
  {{- if has "*" $resources }}{{ $resources = list "*" }}{{ end -}}
  {{- $parts := splitn " " 2 $scope -}}
  {{- $rule := dict "apiGroups" (list $parts._0) "resources" $resources "verbs" (list "list" "watch") -}}
  {{- if $parts._1 }}{{ $_ := set $rule "resourceNames" (list $parts._1) }}{{ end -}}
  {{- $rules = append $rules $rule -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}

{{/* "true" if one of the rules is about all objects of a resource ("apps/deployments"). */}}
{{- define "informd.allow" -}}
{{- $parts := splitn "/" 2 .resource -}}
{{- range .rules -}}
  {{- if and (or (has $parts._0 .apiGroups) (has "*" .apiGroups)) (or (has $parts._1 .resources) (has "*" .resources)) (not .resourceNames) -}}
    true
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" if one of the entries has an ownerChain. */}}
{{- define "informd.ownersWanted" -}}
{{- range . }}{{ if .ownerChain }}true{{ end }}{{ end -}}
{{- end -}}

{{/* The rules for the ownerChain of entries. */}}
{{- define "informd.ownerRules" -}}
{{- $rules := list -}}
{{- if include "informd.ownersWanted" . -}}
  {{- range $owner := list "/replicationcontrollers" "apps/daemonsets" "apps/deployments" "apps/replicasets" "apps/statefulsets" "batch/cronjobs" "batch/jobs" -}}
    {{- $parts := splitn "/" 2 $owner -}}
    {{- $last := last $rules | default dict -}}
    {{- if has $parts._0 ($last.apiGroups | default list) -}}
      {{- $_ := set $last "resources" (append $last.resources $parts._1) -}}
    {{- else -}}
      {{- $rules = append $rules (dict "apiGroups" (list $parts._0) "resources" (list $parts._1) "verbs" (list "get")) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}

{{/* The rules of the ClusterRole. */}}
{{- define "informd.clusterRules" -}}
{{- $watched := list -}}
{{- $selects := false -}}
{{- range include "informd.entries" . | fromJsonArray -}}
  {{- if .clusterWide }}{{ $watched = append $watched . }}{{ end -}}
  {{- $selects = or $selects .selects -}}
{{- end -}}
{{- $read := list "list" "watch" -}}
{{- $watches := include "informd.watchRules" $watched | fromJsonArray -}}
{{- $rules := concat $watches (include "informd.ownerRules" $watched | fromJsonArray) -}}
{{- if and $selects (not (include "informd.allow" (dict "rules" $watches "resource" "/namespaces"))) -}}
  {{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "namespaces") "verbs" $read) -}}
{{- end -}}
{{- /* Its UID identifies the cluster. */ -}}
{{- $rules = append $rules (dict "apiGroups" (list "") "resources" (list "namespaces") "resourceNames" (list "kube-system") "verbs" (list "get")) -}}
{{- /* Optional: with these, informd notices at once that a resource is installed or removed. */ -}}
{{- range $notice := list "apiextensions.k8s.io/customresourcedefinitions" "apiregistration.k8s.io/apiservices" -}}
  {{- $parts := splitn "/" 2 $notice -}}
  {{- if not (include "informd.allow" (dict "rules" $watches "resource" $notice)) -}}
    {{- $rules = append $rules (dict "apiGroups" (list $parts._0) "resources" (list $parts._1) "verbs" $read) -}}
  {{- end -}}
{{- end -}}
{{- toJson (concat $rules .Values.rbac.rules) -}}
{{- end -}}

{{/* The rules for the Lease of several replicas. RBAC cannot limit create to a name. */}}
{{- define "informd.leaseRules" -}}
{{- $lease := dict "apiGroups" (list "coordination.k8s.io") "resources" (list "leases") -}}
{{- $own := merge (dict "resourceNames" (list .lease) "verbs" (list "get" "update")) $lease -}}
{{- toJson (list $own (merge (dict "verbs" (list "create")) $lease)) -}}
{{- end -}}

{{/* The rules of the Roles, by namespace. */}}
{{- define "informd.namespaceRules" -}}
{{- $entries := dict -}}
{{- $ownersEverywhere := false -}}
{{- range $entry := include "informd.entries" . | fromJsonArray -}}
  {{- if $entry.clusterWide -}}
    {{- $ownersEverywhere = or $ownersEverywhere $entry.ownerChain -}}
  {{- else -}}
    {{- range $namespace := $entry.namespaces -}}
      {{- $_ := set $entries $namespace (append (get $entries $namespace | default list) $entry) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $rules := dict -}}
{{- range $namespace, $watched := $entries -}}
  {{- $own := include "informd.watchRules" $watched | fromJsonArray -}}
  {{- if not $ownersEverywhere -}}
    {{- $own = concat $own (include "informd.ownerRules" $watched | fromJsonArray) -}}
  {{- end -}}
  {{- $_ := set $rules $namespace $own -}}
{{- end -}}
{{- with (include "informd.config" . | fromYaml).replicas -}}
  {{- $others := get $rules .namespace | default list -}}
  {{- $_ := set $rules .namespace (concat $others (include "informd.leaseRules" . | fromJsonArray)) -}}
{{- end -}}
{{- toJson $rules -}}
{{- end -}}
