{{/* The pods of one part: (dict "root" $ "part" crud or readonly "values" the part's values "mode" API_MODE) */}}
{{- define "api.deployment" -}}
{{- $root := .root }}
{{- $v := $root.Values }}
{{- $sqlite := eq $v.store.backend "sqlite" }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $v.name }}-{{ .part }}
  labels:
    {{- include "api.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .part }}
spec:
  {{- if not .values.autoscaling.enabled }}
  replicas: {{ int64 .values.replicas }}
  {{- end }}
  {{- if $sqlite }}
  # Two pods on one SQLite file would corrupt it: the old one goes before the new one comes.
  strategy: {type: Recreate}
  {{- else }}
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  {{- end }}
  selector:
    matchLabels:
      {{- include "api.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .part }}
  template:
    metadata:
      labels:
        {{- include "api.labelsAnd" (list $root .values.podLabels) | nindent 8 }}
        app.kubernetes.io/component: {{ .part }}
      annotations:
        # Variables and the seed are read once: pods are replaced when the chart's own Secrets or ConfigMap change.
        {{- include "api.text" (list (dict "checksum/config" (list $v.auth $v.store.postgres $v.seed | toJson | sha256sum)) .values.podAnnotations) | nindent 8 }}
    spec:
      serviceAccountName: {{ include "api.serviceAccount" $root | toYaml }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with $v.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml $v.podSecurityContext | nindent 8 }}
      terminationGracePeriodSeconds: {{ int64 .values.terminationGracePeriodSeconds }}
      {{- with .values.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: api
          image: {{ include "api.image" $root | quote }}
          imagePullPolicy: {{ $v.image.pullPolicy }}
          securityContext:
            {{- toYaml $v.securityContext | nindent 12 }}
          ports:
            - {name: http, containerPort: 8080}
            - {name: metrics, containerPort: 9090}
          env:
            {{- include "api.env" . | nindent 12 }}
            {{- with $v.config.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          startupProbe:
            httpGet: {path: /health, port: metrics, scheme: {{ include "api.scheme" $root | upper }}}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /health, port: metrics, scheme: {{ include "api.scheme" $root | upper }}}
            periodSeconds: 10
          {{- if $sqlite }}
          # The only pod goes on answering polls while changes fail.
          {{- end }}
          readinessProbe:
            httpGet: {path: {{ ternary "/ready?for=polls" "/ready" $sqlite | quote }}, port: metrics, scheme: {{ include "api.scheme" $root | upper }}}
            periodSeconds: 5
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          volumeMounts:
            {{- include "api.mounts" . | nindent 12 }}
            {{- with .values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with .values.extraContainers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        {{- include "api.volumes" . | nindent 8 }}
        {{- with .values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with include "api.nodes" .values | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- $nodes := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" }}
        {{- $pods := set (include "api.selector" $root | fromYaml) "app.kubernetes.io/component" .part }}
        {{- range .values.topologySpreadConstraints | default (list $nodes) }}
        {{- $selected := dict "labelSelector" (.labelSelector | default (dict "matchLabels" $pods)) }}
        {{- list (merge $selected .) | toYaml | nindent 8 }}
        {{- end }}
{{- end }}

{{/* Which nodes pods may run on, as the values of a part say. The jobs and tests beside them run where pods of mode crud may. */}}
{{- define "api.nodes" -}}
{{- with .priorityClassName }}
priorityClassName: {{ toYaml . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- include "api.text" (list .) | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The variables that the chart sets. */}}
{{- define "api.env" -}}
{{- $v := .root.Values }}
- {name: API_MODE, value: {{ .mode }}}
- {name: STORE_BACKEND, value: {{ $v.store.backend }}}
- name: DATABASE_URL
  {{- if eq $v.store.backend "sqlite" }}
  value: sqlite:///data/flux-resourceset.db?mode=rwc
  {{- else }}
  valueFrom:
    secretKeyRef:
      {{- include "api.databaseSecret" . | trim | nindent 6 }}
  {{- end }}
{{- $secret := include "api.tokenSecret" .root }}
{{- if $v.auth.staticTokens }}
- name: AUTH_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ toYaml $secret }}, key: {{ $v.auth.readTokenKey | toYaml }}}
- name: AUTH_TOKEN_PREVIOUS
  valueFrom:
    secretKeyRef: {name: {{ toYaml $secret }}, key: {{ $v.auth.readTokenPreviousKey | toYaml }}, optional: true}
{{- end }}
{{- if eq .mode "crud" }}
{{- if $v.auth.staticTokens }}
- name: CRUD_AUTH_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ toYaml $secret }}, key: {{ $v.auth.writeTokenKey | toYaml }}, optional: true}
- name: CRUD_AUTH_TOKEN_PREVIOUS
  valueFrom:
    secretKeyRef: {name: {{ toYaml $secret }}, key: {{ $v.auth.writeTokenPreviousKey | toYaml }}, optional: true}
{{- end }}
- {name: UI, value: {{ ternary "on" "off" $v.page.enabled | quote }}}
- {name: UI_CHANGES, value: {{ $v.page.changes | quote }}}
- name: SESSION_KEY
  valueFrom:
    secretKeyRef: {name: {{ toYaml $secret }}, key: {{ $v.auth.sessionKeyKey | toYaml }}, optional: true}
- name: SESSION_KEY_PREVIOUS
  valueFrom:
    secretKeyRef: {name: {{ toYaml $secret }}, key: {{ $v.auth.sessionKeyPreviousKey | toYaml }}, optional: true}
{{- if $v.config.publicURL }}
- {name: PUBLIC_URL, value: {{ $v.config.publicURL | quote }}}
- name: WEBHOOK_KEY
  valueFrom:
    secretKeyRef: {name: {{ toYaml $secret }}, key: {{ $v.auth.webhookKeyKey | toYaml }}, optional: true}
{{- end }}
{{- if $v.config.webhookAllowHTTP }}
- {name: WEBHOOK_ALLOW_HTTP, value: "true"}
{{- end }}
{{- if $v.config.webhookAllowPrivate }}
- {name: WEBHOOK_ALLOW_PRIVATE, value: "true"}
{{- end }}
{{- if $v.config.versionScan }}
- {name: VERSION_SCAN, value: "true"}
{{- end }}
{{- if or $v.config.versionScan $v.config.sources }}
{{- if $v.config.versionScanAllowHTTP }}
- {name: VERSION_SCAN_ALLOW_HTTP, value: "true"}
{{- end }}
{{- if $v.config.versionScanAllowPrivate }}
- {name: VERSION_SCAN_ALLOW_PRIVATE, value: "true"}
{{- end }}
{{- with $v.config.registryAuthFile }}
- {name: REGISTRY_AUTH_FILE, value: {{ . | quote }}}
{{- end }}
{{- with $v.config.registryCAFile }}
- {name: REGISTRY_CA_FILE, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- with $v.auth.oidcIssuers }}
- name: OIDC_ISSUERS
  value: {{ toJson . | quote }}
{{- end }}
{{- end }}
{{- if $v.auth.allowShortTokens }}
- {name: ALLOW_SHORT_TOKENS, value: "true"}
{{- end }}
{{- if ne $v.store.backend "sqlite" }}
- {name: SHUTDOWN_DELAY, value: 5s} # Services and ingress controllers still send requests for a short time after SIGTERM
{{- end }}
- {name: LISTEN_ADDR, value: "0.0.0.0:8080"}
- {name: METRICS_ADDR, value: "0.0.0.0:9090"}
- {name: LOG_LEVEL, value: {{ $v.config.logLevel }}}
- {name: LOG_FORMAT, value: {{ $v.config.logFormat }}}
- name: ENVIRONMENTS
  value: {{ join "," $v.config.environments | quote }}
- name: PROTECTED_ENVIRONMENTS
  value: {{ join "," $v.config.protectedEnvironments | quote }}
- name: MAX_REMOVALS
  value: {{ $v.config.maxRemovals | int64 | quote }}
- {name: VERSION_ROLLOUTS, value: {{ $v.config.versionRollouts | int64 | quote }}}
{{- if $v.config.requireSecondPerson }}
- {name: REQUIRE_SECOND_PERSON, value: "true"}
{{- end }}
{{- if eq $v.config.secretValues "refuse" }}
- {name: SECRET_VALUES, value: refuse}
{{- end }}
{{- if $v.config.requireClusterToken }}
- {name: REQUIRE_CLUSTER_TOKEN, value: "true"}
{{- end }}
{{- if $v.config.gatesTrustSharedToken }}
- {name: GATES_TRUST_SHARED_TOKEN, value: "true"}
{{- end }}
{{- if $v.config.maxStaleness }}
- {name: MAX_STALENESS, value: {{ $v.config.maxStaleness | quote }}}
{{- end }}
{{- if $v.config.historyRetention }}
- {name: HISTORY_RETENTION, value: {{ $v.config.historyRetention | quote }}}
{{- end }}
{{- if $v.config.passive }}
- {name: PASSIVE, value: "true"}
{{- end }}
{{- if ne (int $v.config.watchStreams) 256 }}
- {name: WATCH_STREAMS, value: {{ $v.config.watchStreams | int64 | quote }}}
{{- end }}
{{- if $v.config.basePath }}
- {name: BASE_PATH, value: {{ $v.config.basePath | quote }}}
{{- end }}
{{- if $v.config.auditOutput }}
- {name: AUDIT_OUTPUT, value: {{ $v.config.auditOutput | quote }}}
{{- end }}
{{- if $v.config.otlpEndpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ $v.config.otlpEndpoint | quote }}}
{{- end }}
{{- if and (eq .mode "crud") (or $v.seed.existingConfigMap $v.seed.data) }}
- {name: SEED_FILE, value: /seed/seed.json}
- {name: SEED_ACCEPT, value: {{ $v.seed.accept | quote }}}
{{- end }}
{{- if $v.lastGood.enabled }}
- {name: STATE_DIR, value: /last-good}
{{- if eq (include "api.serveStale" .root) "true" }}
- {name: SERVE_STALE_AFTER_RESTART, value: "true"}
{{- if $v.lastGood.maxAge }}
- {name: STATE_MAX_AGE, value: {{ $v.lastGood.maxAge | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- if $v.tls.existingSecret }}
- {name: TLS_CERT_FILE, value: /tls/tls.crt}
- {name: TLS_KEY_FILE, value: /tls/tls.key}
{{- end }}
{{- if $v.tls.clientCASecret }}
- {name: TLS_CLIENT_CA_FILE, value: /client-ca/ca.crt}
{{- end }}
{{- if $v.tls.requireClientCert }}
- {name: REQUIRE_CLIENT_CERT, value: "true"}
{{- end }}
{{- end }}

{{- define "api.mounts" -}}
{{- $v := .root.Values }}
- {name: tmp, mountPath: /tmp}
{{- if $v.lastGood.enabled }}
- {name: last-good, mountPath: /last-good}
{{- end }}
{{- if eq $v.store.backend "sqlite" }}
- {name: data, mountPath: /data}
{{- end }}
{{- if and (eq .mode "crud") (or $v.seed.existingConfigMap $v.seed.data) }}
- {name: seed, mountPath: /seed, readOnly: true}
{{- end }}
{{- if $v.tls.existingSecret }}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
{{- if $v.tls.clientCASecret }}
- {name: client-ca, mountPath: /client-ca, readOnly: true}
{{- end }}
{{- end }}

{{- define "api.volumes" -}}
{{- $v := .root.Values }}
{{- $disk := $v.store.sqlite.persistence }}
- name: tmp
  {{- if $v.tmp.sizeLimit }}
  emptyDir:
    sizeLimit: {{ $v.tmp.sizeLimit }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- if $v.lastGood.enabled }}
- name: last-good
  {{- toYaml $v.lastGood.volume | nindent 2 }}
{{- end }}
{{- if eq $v.store.backend "sqlite" }}
- name: data
  {{- if $disk.enabled }}
  persistentVolumeClaim:
    claimName: {{ $disk.existingClaim | default (printf "%s-data" $v.name) | toYaml }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- if and (eq .mode "crud") (or $v.seed.existingConfigMap $v.seed.data) }}
- name: seed
  configMap:
    name: {{ $v.seed.existingConfigMap | default (printf "%s-seed-data" $v.name) | toYaml }}
{{- end }}
{{- if $v.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ $v.tls.existingSecret | toYaml }}
{{- end }}
{{- if $v.tls.clientCASecret }}
- name: client-ca
  secret:
    secretName: {{ $v.tls.clientCASecret | toYaml }}
    items:
      - {key: ca.crt, path: ca.crt}
{{- end }}
{{- end }}
