{{/* Labels of every object of this chart. What ResourceSets apply carries the operator's own. */}}
{{- define "cluster.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{/* All that is missing or contradictory, in one message: one attempt is enough to correct it. */}}
{{- define "cluster.check" -}}
{{- $problems := list }}
{{- if not .Values.cluster.name }}{{ $problems = append $problems "cluster.name is required: the cluster's name in the API" }}{{ end }}
{{- if not .Values.cluster.dns }}{{ $problems = append $problems "cluster.dns is required: the API knows the cluster by it" }}{{ end }}
{{- if not .Values.cluster.environment }}{{ $problems = append $problems "cluster.environment is required: dev, qa, uat, prod or another tier of the API's" }}{{ end }}
{{- if not .Values.api.url }}{{ $problems = append $problems "api.url is required: the base URL of the API as this cluster reaches it" }}{{ end }}
{{- $tls := .Values.api.tls }}
{{- if and .Values.api.token .Values.api.existingSecret }}{{ $problems = append $problems "api.token and api.existingSecret exclude each other" }}{{ end }}
{{- if not (or .Values.api.token .Values.api.existingSecret $tls.existingSecret $tls.cert) }}{{ $problems = append $problems "api.existingSecret (or api.token, or a client certificate in api.tls) is required: the API answers nobody it does not know" }}{{ end }}
{{- if and $tls.existingSecret (or $tls.ca $tls.cert $tls.key) }}{{ $problems = append $problems "api.tls.existingSecret excludes api.tls.ca, cert and key" }}{{ end }}
{{- if ne (empty $tls.cert) (empty $tls.key) }}{{ $problems = append $problems "api.tls.cert and api.tls.key belong together" }}{{ end }}
{{- if and (hasPrefix "http://" .Values.api.url) (or $tls.existingSecret $tls.ca $tls.cert) }}{{ $problems = append $problems "api.tls needs an https:// api.url" }}{{ end }}
{{- range $section, $names := dict "cluster" (list "name" "dns" "environment") "api" (list "url" "token" "existingSecret" "tls") }}
{{- range $names }}
{{- if hasKey $.Values . }}{{ $problems = append $problems (printf "%s: use %s.%s" . $section .) }}{{ end }}
{{- end }}
{{- end }}
{{- $types := list "platform-components" "namespaces" "rolebindings" }}
{{- range .Values.customResources }}
{{- if has .type $types }}{{ $problems = append $problems (printf "customResources: %q is there already" .type) }}{{ end }}
{{- $types = append $types .type }}
{{- end }}
{{- $secrets := list "internal-api-token" "internal-api-tls" }}
{{- range .Values.pullSecrets }}
{{- if has .name $secrets }}{{ $problems = append $problems (printf "pullSecrets: Secret %q is there already" .name) }}{{ end }}
{{- $secrets = append $secrets .name }}
{{- end }}
{{- /* lookup finds nothing in `helm template`, nor while there is no such ConfigMap */}}
{{- $identity := lookup "v1" "ConfigMap" "flux-system" "cluster-identity" }}
{{- $known := dig "data" "CLUSTER_DNS" "" $identity }}
{{- if and $known (ne ($known | lower | trimSuffix ".") (.Values.cluster.dns | lower | trimSuffix ".")) }}{{ $problems = append $problems (printf "cluster.dns is %q, but ConfigMap cluster-identity of this cluster has %q: the values are of another cluster. To rename the cluster, delete the ConfigMap first" .Values.cluster.dns $known) }}{{ end }}
{{- if $problems }}{{ fail (printf "\n  - %s" (join "\n  - " $problems)) }}{{ end }}
{{- end }}

{{/* What the templates receive with every input, beside the settings of its type: the cluster's own DNS name, which each answer
has to be for, how receipts reach the API, and as whom the ResourceSets apply that they make. The values of cluster.resource. */}}
{{- define "cluster.settings" -}}
{{- $api := .root.Values.api }}
{{- $settings := .settings | default dict | deepCopy }}
{{- $_ := set $settings "clusterDNS" .root.Values.cluster.dns }}
{{- with .root.Values.serviceAccountName }}{{ $_ := set $settings "serviceAccountName" . }}{{ end }}
{{- $receipts := .root.Values.receipts }}
{{- if and $receipts.enabled (or (hasKey . "custom") (has .name $receipts.lists)) }}
{{- $way := dict "url" (printf "%s/api/v2/flux/clusters/%s/receipts" (trimSuffix "/" $api.url) .root.Values.cluster.dns) "interval" $receipts.interval }}
{{- with include "cluster.tokenSecret" .root }}{{ $_ := set $way "secret" . }}{{ end }}
{{- with include "cluster.tlsSecret" .root }}{{ $_ := set $way "tlsSecret" . }}{{ end }}
{{- $_ := set $settings "receipts" $way }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{/* Names of the Secrets that providers use; empty: none. */}}
{{- define "cluster.tokenSecret" -}}
{{- if .Values.api.token }}internal-api-token{{ else }}{{ .Values.api.existingSecret }}{{ end }}
{{- end }}
{{- define "cluster.tlsSecret" -}}
{{- $tls := .Values.api.tls }}
{{- if or $tls.existingSecret $tls.ca $tls.cert }}{{ $tls.existingSecret | default "internal-api-tls" }}{{ end }}
{{- end }}

{{/* One type of resource: (dict "root" $ "name" the provider's name "values" its values "settings" for the template). With
"custom", an entry of customResources, the ResourceSet is that of the namespaces, every guard included, with another name
and template, which may ask for receipts as the shipped ones do. */}}
{{- define "cluster.resource" -}}
{{- $api := .root.Values.api }}
{{- if .values.enabled }}
---
apiVersion: fluxcd.controlplane.io/v1
kind: ResourceSetInputProvider
metadata:
  name: {{ toYaml .name }}
  namespace: flux-system
  labels:
    {{- include "cluster.labels" .root | nindent 4 }}
  annotations:
    fluxcd.controlplane.io/reconcileEvery: {{ .values.interval | default .root.Values.interval | quote }}
spec:
  type: ExternalService
  url: {{ printf "%s/api/v2/flux/clusters/%s/%s" (trimSuffix "/" $api.url) .root.Values.cluster.dns .name | quote }}
  {{- if hasPrefix "http://" $api.url }}
  insecure: true
  {{- end }}
  {{- with include "cluster.tokenSecret" .root }}
  secretRef:
    name: {{ toYaml . }}
  {{- end }}
  {{- with include "cluster.tlsSecret" .root }}
  certSecretRef:
    name: {{ toYaml . }}
  {{- end }}
  # Flux Operator reads 100 inputs unless told otherwise, and removes from the cluster what it did not read.
  filter:
    limit: {{ .root.Values.inputsLimit }}
  {{- with include "cluster.settings" . | fromYaml }}
  defaultValues:
    settings:
      {{- toYaml . | nindent 6 }}
  {{- end }}
{{- if .values.resourceSet }}
{{- $name := .name }}
{{- $set := .root.Files.Get (printf "files/%s.yaml" (ternary "namespaces" .name (hasKey . "custom"))) | fromYaml }}
{{- with .custom }}
{{- $_ := set $set.metadata "name" $name }}
{{- range concat $set.spec.dependsOn $set.spec.inputsFrom }}{{ $_ := set . "name" $name }}{{ end }}
{{- $_ := set $set.spec "resourcesTemplate" (printf "%s%s" ($.root.Files.Get "files/receipt.tpl") .template) }}
{{- if or .force (eq .prune false) }}
{{- $annotations := dict }}
{{- if .force }}{{ $_ := set $annotations "fluxcd.controlplane.io/force" "enabled" }}{{ end }}
{{- if eq .prune false }}{{ $_ := set $annotations "fluxcd.controlplane.io/prune" "disabled" }}{{ end }}
{{- $_ := set $set.spec "commonMetadata" (dict "annotations" $annotations) }}
{{- end }}
{{- end }}
{{- $_ := set $set.metadata "labels" (include "cluster.labels" .root | fromYaml) }}
{{- $_ := set $set.metadata.annotations "fluxcd.controlplane.io/reconcileEvery" .root.Values.driftCorrectionInterval }}
{{- with .root.Values.serviceAccountName }}{{ $_ := set $set.spec "serviceAccountName" . }}{{ end }}
---
{{ toYaml $set }}
{{- end }}
{{- end }}
{{- end }}

{{/* Sets each value that is absent: (dict "values" .Values "defaults" a map), nested maps likewise. A value that is there
stays, false and "" included, for which sprig's merge would take the default. */}}
{{- define "cluster.fill" -}}
{{- range $key, $default := .defaults }}
{{- $value := get $.values $key }}
{{- if not (hasKey $.values $key) }}{{ $_ := set $.values $key $default }}
{{- else if and (kindIs "map" $value) (kindIs "map" $default) }}{{ include "cluster.fill" (dict "values" $value "defaults" $default) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Adds the values that a release before this one did not have, with the defaults of values.yaml: `helm upgrade
--reuse-values` keeps the values of that release and ignores values.yaml. Every template includes it first. */}}
{{- define "cluster.newValues" -}}
{{- include "cluster.fill" (dict "values" .Values "defaults" (fromYaml `
receipts: {enabled: true, interval: 1h, lists: [platform-components, namespaces, rolebindings]}
events: {enabled: false, severity: info, operatorKinds: true}
namespaces: {takeOver: false}
customResources: []
extraObjects: []
`)) }}
{{- end }}
