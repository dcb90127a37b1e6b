{{/* The name of all objects. A StatefulSet has 52 characters at most. */}}
{{- define "informd.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains "informd" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-informd" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "informd.selectorLabels" -}}
app.kubernetes.io/name: informd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "informd.labels" -}}
{{ include "informd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "informd.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "informd.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "informd.image" -}}
{{- .Values.image.repository -}}
{{- if .Values.image.digest -}}
@{{ .Values.image.digest }}
{{- else -}}
:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Where the Secret of several replicas is mounted. */}}
{{- define "informd.replicasDir" -}}
/etc/informd-replicas
{{- end -}}

{{/* config, and with several replicas the keys that they need. Those of the user have priority. The
address of each Pod is in its environment. */}}
{{- define "informd.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- $dir := include "informd.replicasDir" . -}}
{{- $admin := omit $config.admin "allowHTTP" -}}
{{- $tls := dict "certFile" (printf "%s/tls.crt" $dir) "keyFile" (printf "%s/tls.key" $dir) -}}
{{- $_ := set $config "admin" (merge $admin (dict "tokenFile" (printf "%s/token" $dir) "tls" $tls)) -}}
{{- $_ := set $config "redaction" (merge (default dict $config.redaction) (dict "keyFile" (printf "%s/redaction.key" $dir))) -}}
{{- $_ := set $config "replicas" (merge (default dict $config.replicas) (dict "lease" (include "informd.fullname" .) "namespace" .Release.Namespace)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* "true" if the log is on a volume of its own. */}}
{{- define "informd.persistent" -}}
{{- if and (eq .Values.config.journal.type "log") (ternary (le (int .Values.replicas) 1) .Values.persistence.enabled (kindIs "invalid" .Values.persistence.enabled)) -}}
true
{{- end -}}
{{- end -}}

{{/* The port of config.admin.listen. */}}
{{- define "informd.port" -}}
{{- regexFind "[0-9]+$" .Values.config.admin.listen -}}
{{- end -}}

{{- define "informd.scheme" -}}
{{- $admin := (include "informd.config" . | fromYaml).admin -}}
{{- ternary "HTTPS" "HTTP" (not (empty (dig "tls" "certFile" "" $admin))) -}}
{{- end -}}

{{/* A hash of the keys that a running informd cannot change: an upgrade replaces the Pod only
for these. */}}
{{- define "informd.restartHash" -}}
{{- $fixed := omit (include "informd.config" . | fromYaml) "resources" "sinks" -}}
{{- $fixed = set $fixed "log" (omit (default dict $fixed.log) "level") -}}
{{- $fixed = set $fixed "kubernetes" (omit (default dict $fixed.kubernetes) "maxWatches") -}}
{{- $fixed | toJson | sha256sum -}}
{{- end -}}

{{/* 90 % of the memory limit, or nothing without a limit. */}}
{{- define "informd.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if regexMatch "^[0-9.]+(|[kMGT]|[KMGT]i)$" $limit -}}
{{- $unit := regexFind "[A-Za-z]*$" $limit -}}
{{- $bytes := mulf (trimSuffix $unit $limit | float64) (get $units $unit) 0.9 -}}
{{- printf "%.0fMiB" (divf $bytes 1048576 | floor) -}}
{{- end -}}
{{- end -}}

{{/* Values that contradict each other, which a JSON Schema cannot express. */}}
{{- define "informd.check" -}}
{{- $journal := .Values.config.journal -}}
{{- $admin := .Values.config.admin -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- if ne $journal.type "log" -}}
{{- fail (printf "replicas is %d, and config.journal.type is %s: only a log is copied to the other replicas (docs/ha.md). Set config.journal.type: log, or replicas: 1" (int .Values.replicas) $journal.type) -}}
{{- end -}}
{{- if not .Values.replicasSecret -}}
{{- fail (printf "replicas is %d, and replicasSecret is empty: the replicas need a Secret with a token, a certificate for *.%s.%s.svc and a key. Make it with the commands in deploy/README.md#high-availability, and set replicasSecret to its name; or set replicas: 1" (int .Values.replicas) (include "informd.fullname" .) .Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch "^(0[.]0[.]0[.]0|\\[::\\])?:[1-9][0-9]*$" $admin.listen) -}}
{{- fail (printf "config.admin.listen is %q: the kubelet reaches the probes on all addresses of the Pod only. Set \":8080\", or another port" $admin.listen) -}}
{{- end -}}
{{- if dig "tls" "clientCAFile" "" $admin -}}
{{- fail "config.admin.tls.clientCAFile is set: the kubelet has no client certificate, and its probes would fail. Remove the key; networkPolicy.metricsFrom restricts the clients" -}}
{{- end -}}
{{- if not (hasPrefix "/" $journal.dir) -}}
{{- fail (printf "config.journal.dir is %q: the volume is mounted there. Set an absolute path" $journal.dir) -}}
{{- end -}}
{{- end -}}
