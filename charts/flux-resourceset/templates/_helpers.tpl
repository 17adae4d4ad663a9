{{- define "api.labels" -}}
{{ include "api.labelsAnd" (list .) }}
{{- end }}

{{/* The labels of each object, and those of an own kind of it, which win: (list $ map) */}}
{{- define "api.labelsAnd" -}}
{{- $root := first . }}
{{- include "api.selector" $root }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ toYaml $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | quote }}
{{- with include "api.text" (prepend (rest .) $root.Values.commonLabels) }}
{{ . }}
{{- end }}
{{- end }}

{{/* A list of maps as one map of texts, of which the later win: YAML reads many annotations as numbers and booleans, which
Kubernetes refuses. */}}
{{- define "api.text" -}}
{{- $all := dict }}
{{- range . }}
{{- range $key, $value := . }}{{ $_ := set $all $key (kindIs "string" $value | ternary $value (toJson $value)) }}{{ end }}
{{- end }}
{{- if $all }}{{ toYaml $all }}{{ end }}
{{- end }}

{{- define "api.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | toYaml }}
app.kubernetes.io/instance: {{ toYaml .Release.Name }}
{{- end }}

{{- define "api.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary .Values.name "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "api.backupServiceAccount" -}}
{{- $own := .Values.backup.serviceAccount }}
{{- if $own.create }}{{ $own.name | default (printf "%s-backup" .Values.name) }}{{ else }}{{ $own.name | default (include "api.serviceAccount" .) }}{{ end }}
{{- end }}

{{- define "api.tokenSecret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-tokens" .Values.name) }}
{{- end }}

{{- define "api.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "api.scheme" -}}
{{ ternary "https" "http" (ne .Values.tls.existingSecret "") }}
{{- end }}

{{/* Whether pods serve a fleet from disk that is older than MAX_STALENESS: the only pod of SQLite does. */}}
{{- define "api.serveStale" -}}
{{- $set := .Values.lastGood.serveStaleAfterRestart }}
{{- if kindIs "bool" $set }}{{ $set }}{{ else }}{{ eq .Values.store.backend "sqlite" }}{{ end }}
{{- end }}

{{/* All that is missing or contradictory, in one message: one attempt is enough to correct it. */}}
{{- define "api.check" -}}
{{- $problems := list }}
{{- $pg := .Values.store.postgres }}
{{- if eq .Values.store.backend "sqlite" }}
{{- if gt (int .Values.crud.replicas) 1 }}{{ $problems = append $problems "crud.replicas is more than 1: a SQLite file has one writer. Set store.backend to postgres for more pods" }}{{ end }}
{{- if or .Values.crud.autoscaling.enabled .Values.readonly.autoscaling.enabled }}{{ $problems = append $problems "autoscaling needs store.backend postgres: a SQLite file has one writer" }}{{ end }}
{{- if or $pg.url $pg.existingSecret }}{{ $problems = append $problems "store.postgres is set but store.backend is sqlite" }}{{ end }}
{{- else }}
{{- if not (or $pg.url $pg.existingSecret) }}{{ $problems = append $problems "store.postgres.existingSecret (or store.postgres.url) is required with store.backend postgres" }}{{ end }}
{{- if and $pg.url $pg.existingSecret }}{{ $problems = append $problems "store.postgres.url and store.postgres.existingSecret exclude each other" }}{{ end }}
{{- $several := or .Values.crud.autoscaling.enabled .Values.readonly.autoscaling.enabled (gt (add .Values.crud.replicas .Values.readonly.replicas) 1) }}
{{- if and .Values.lastGood.enabled $several (eq (include "api.serveStale" .) "true") }}{{ $problems = append $problems "lastGood.serveStaleAfterRestart needs crud.replicas and readonly.replicas to be 1 together, and no autoscaling: clusters that reach two pods would uninstall what lies between their answers" }}{{ end }}
{{- if and $pg.read.url $pg.read.existingSecret }}{{ $problems = append $problems "store.postgres.read.url and store.postgres.read.existingSecret exclude each other" }}{{ end }}
{{- end }}
{{- if not .Values.auth.staticTokens }}
{{- if or .Values.auth.readToken .Values.auth.writeToken }}{{ $problems = append $problems "auth.staticTokens is false, so auth.readToken and auth.writeToken must be empty" }}{{ end }}
{{- else if not (or .Values.auth.existingSecret .Values.auth.readToken) }}{{ $problems = append $problems "auth.existingSecret (or auth.readToken) is required: the token that clusters send" }}{{ end }}
{{- if and .Values.config.requireClusterToken .Values.config.gatesTrustSharedToken }}{{ $problems = append $problems "config.requireClusterToken and config.gatesTrustSharedToken exclude each other" }}{{ end }}
{{- if and .Values.auth.existingSecret (or .Values.auth.readToken .Values.auth.writeToken) }}{{ $problems = append $problems "auth.existingSecret excludes auth.readToken and auth.writeToken" }}{{ end }}
{{- if not .Values.auth.allowShortTokens }}
{{- range $name := list "readToken" "writeToken" }}
{{- $token := index $.Values.auth $name }}
{{- if and $token (lt (len $token) 16) }}{{ $problems = append $problems (printf "auth.%s has less than 16 characters, which needs auth.allowShortTokens: for demos" $name) }}{{ end }}
{{- end }}
{{- end }}
{{- if and .Values.seed.existingConfigMap .Values.seed.data }}{{ $problems = append $problems "seed.existingConfigMap and seed.data exclude each other" }}{{ end }}
{{- if and .Values.tls.clientCASecret (not .Values.tls.existingSecret) }}{{ $problems = append $problems "tls.clientCASecret needs tls.existingSecret: client certificates need HTTPS" }}{{ end }}
{{- if and .Values.tls.requireClientCert (not .Values.tls.clientCASecret) }}{{ $problems = append $problems "tls.requireClientCert needs tls.clientCASecret: the CA whose certificates are good" }}{{ end }}
{{- $hosts := dict }}
{{- range $part := list "crud" "readonly" }}
{{- $values := index $.Values $part }}
{{- if and $values.ingress.enabled (not $values.ingress.host) }}{{ $problems = append $problems (printf "%s.ingress.host is required" $part) }}{{ end }}
{{- if and $values.httpRoute.enabled (not $values.httpRoute.parentRefs) }}{{ $problems = append $problems (printf "%s.httpRoute.parentRefs is required: the Gateway to attach to" $part) }}{{ end }}
{{- if $values.autoscaling.enabled }}
{{- if gt (int64 $values.autoscaling.minReplicas) (int64 $values.autoscaling.maxReplicas) }}{{ $problems = append $problems (printf "%s.autoscaling.minReplicas is more than maxReplicas" $part) }}{{ end }}
{{- if not (dig "requests" "cpu" "" ($values.resources | default dict)) }}{{ $problems = append $problems (printf "%s.autoscaling needs %s.resources.requests.cpu, of which its target is a share" $part $part) }}{{ end }}
{{- end }}
{{- $pods := include "api.leastPods" $values | int64 }}
{{- $needed := $values.podDisruptionBudget.minAvailable }}
{{- if kindIs "string" $needed }}{{ $needed = div (add (mul (trimSuffix "%" $needed | int64) $pods) 99) 100 }}{{ end }}
{{- if and $values.podDisruptionBudget.enabled (gt $pods 1) (ge (int64 $needed) $pods) }}{{ $problems = append $problems (printf "%s.podDisruptionBudget.minAvailable lets no pod of %d go, so nodes could not be drained" $part $pods) }}{{ end }}
{{- if $values.ingress.enabled }}
{{- range $host := prepend $values.ingress.extraHosts $values.ingress.host }}
{{- $of := get $hosts $host }}
{{- if eq $of $part }}{{ $problems = append $problems (printf "%s.ingress has the host %s twice" $part $host) }}
{{- else if and $of (ne (list $.Values.crud.ingress.className $.Values.crud.ingress.tlsSecret | toJson) (list $values.ingress.className $values.ingress.tlsSecret | toJson)) }}{{ $problems = append $problems (printf "crud.ingress and readonly.ingress both have the host %s, so className and tlsSecret must be the same" $host) }}{{ end }}
{{- $_ := set $hosts $host $part }}
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.config.protectedEnvironments }}
{{- if not (has . $.Values.config.environments) }}{{ $problems = append $problems (printf "config.protectedEnvironments has %s, which is not one of config.environments" .) }}{{ end }}
{{- end }}
{{- $names := list }}
{{- range include "api.env" (dict "root" . "part" "crud" "mode" "crud") | fromYamlArray }}{{ $names = append $names .name }}{{ end }}
{{- $more := list }}
{{- range .Values.config.extraEnv }}
{{- if has .name $names }}{{ $problems = append $problems (printf "config.extraEnv must not have %s, which the chart sets" .name) }}{{ end }}
{{- if has .name $more }}{{ $problems = append $problems (printf "config.extraEnv has %s twice" .name) }}{{ end }}
{{- $more = append $more .name }}
{{- end }}
{{- $elsewhere := dict "replicaCount" "crud.replicas or readonly.replicas" "imagePullSecrets" "image.pullSecrets" "env" "config.extraEnv" "extraEnv" "config.extraEnv" "labels" "commonLabels" "containerSecurityContext" "securityContext" "logLevel" "config.logLevel" "environments" "config.environments" "persistence" "store.sqlite.persistence" "sqlite" "store.sqlite" "postgresql" "store.postgres" "metrics" "serviceMonitor" "existingSecret" "auth.existingSecret" }}
{{- range keys .Values.crud }}{{ $_ := set $elsewhere . (printf "crud.%s or readonly.%s" . .) }}{{ end }}
{{- range $key := keys $elsewhere | sortAlpha }}
{{- if hasKey $.Values $key }}{{ $problems = append $problems (printf "%s: use %s" $key (get $elsewhere $key)) }}{{ end }}
{{- end }}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- range $label := $own }}
{{- range $part := list "crud" "readonly" }}
{{- if hasKey ((index $.Values $part).podLabels | default dict) $label }}{{ $problems = append $problems (printf "%s.podLabels must not have %s, which the chart sets" $part $label) }}{{ end }}
{{- end }}
{{- if hasKey ($.Values.commonLabels | default dict) $label }}{{ $problems = append $problems (printf "commonLabels must not have %s, which the chart sets (app.kubernetes.io/name: nameOverride)" $label) }}{{ end }}
{{- end }}
{{- if and .Values.backup.enabled (eq .Values.store.backend "sqlite") (not .Values.store.sqlite.persistence.enabled) }}{{ $problems = append $problems "backup.enabled needs store.sqlite.persistence: without a volume the job cannot read the database" }}{{ end }}
{{- $s3 := .Values.backup.s3 }}
{{- if $s3.bucket }}
{{- if not (or $s3.region $s3.endpoint) }}{{ $problems = append $problems "backup.s3.region is required: the region of the bucket (or, of another service than AWS, backup.s3.endpoint)" }}{{ end }}
{{- if .Values.backup.persistence.existingClaim }}{{ $problems = append $problems "backup.s3.bucket and backup.persistence.existingClaim exclude each other" }}{{ end }}
{{- else if or $s3.prefix $s3.region $s3.endpoint $s3.existingSecret $s3.caSecret }}{{ $problems = append $problems "backup.s3.bucket is required with the other values of backup.s3" }}
{{- end }}
{{- if $problems }}{{ fail (printf "\n  - %s" (join "\n  - " $problems)) }}{{ end }}
{{- end }}

{{/* Where a part's pods find the database: the Secret's name and key. (dict "root" $ "part" crud or readonly) */}}
{{- define "api.databaseSecret" -}}
{{- $pg := .root.Values.store.postgres }}
{{- $read := and (eq .part "readonly") (or $pg.read.url $pg.read.existingSecret) }}
{{- $from := ternary $pg.read $pg (not (empty $read)) }}
{{- if $from.existingSecret }}
name: {{ toYaml $from.existingSecret }}
key: {{ toYaml $from.existingSecretKey }}
{{- else }}
name: {{ .root.Values.name }}-database
key: {{ ternary "READ_DATABASE_URL" "DATABASE_URL" (not (empty $read)) }}
{{- end }}
{{- end }}

{{/* Sets each value that is absent: (dict "values" .Values "defaults" a map), nested maps likewise. A value that is there
stays, false and "" included, for which sprig's merge would take the default. */}}
{{- define "api.fill" -}}
{{- range $key, $default := .defaults }}
{{- $value := get $.values $key }}
{{- if not (hasKey $.values $key) }}{{ $_ := set $.values $key $default }}
{{- else if and (kindIs "map" $value) (kindIs "map" $default) }}{{ include "api.fill" (dict "values" $value "defaults" $default) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Adds the values that a release before this one did not have, with the defaults of values.yaml: `helm upgrade
--reuse-values` keeps the values of that release and ignores values.yaml. Every template includes it first. */}}
{{- define "api.newValues" -}}
{{- include "api.fill" (dict "values" .Values "defaults" (fromYaml `
backup:
  s3: {bucket: "", prefix: "", region: "", endpoint: "", addressing: auto, timeout: 15m, existingSecret: "", caSecret: ""}
  serviceAccount: {create: false, name: "", annotations: {}}
tmp: {sizeLimit: 2Gi}
auth: {staticTokens: true, sessionKeyKey: session-key, sessionKeyPreviousKey: session-key-previous, webhookKeyKey: webhook-key, oidcIssuers: []}
config: {passive: false, gatesTrustSharedToken: false, otlpEndpoint: "", auditOutput: "", basePath: "", watchStreams: 256, publicURL: "", webhookAllowHTTP: false, webhookAllowPrivate: false, versionRollouts: 10, versionScan: false, sources: false, versionScanAllowHTTP: false, versionScanAllowPrivate: false, registryAuthFile: "", registryCAFile: ""}
page: {enabled: true, changes: false}
networkPolicy: {egress: []}
nameOverride: ""
fullnameOverride: ""
extraObjects: []
`)) }}
{{- with .Values.fullnameOverride }}{{ $_ := set $.Values "name" . }}{{ end }}
{{- if kindIs "invalid" .Values.crud.replicas }}{{ $_ := set .Values.crud "replicas" (ternary 1 2 (eq .Values.store.backend "sqlite")) }}{{ end }}
{{- if kindIs "invalid" .Values.readonly.replicas }}{{ $_ := set .Values.readonly "replicas" 2 }}{{ end }}
{{- if not (kindIs "bool" .Values.config.requireClusterToken) }}{{ $_ := set .Values.config "requireClusterToken" (eq (include "api.requireClusterToken" .) "true") }}{{ end }}
{{- end }}

{{/* The default of config.requireClusterToken: true for a new installation. An upgrade keeps the setting of the pods of mode crud, or
false if lookup finds none: otherwise the status of clusters with the read token would become unknown. */}}
{{- define "api.requireClusterToken" -}}
{{- if .Values.config.gatesTrustSharedToken }}false
{{- else if .Release.IsInstall }}true
{{- else }}{{ contains "REQUIRE_CLUSTER_TOKEN" (toJson (lookup "apps/v1" "Deployment" .Release.Namespace (printf "%s-crud" .Values.name))) }}
{{- end }}
{{- end }}

{{/* The port of an http:// or https:// URL, that of the scheme where the URL has none. */}}
{{- define "api.urlPort" -}}
{{- $url := urlParse . }}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) }}
{{- end }}
