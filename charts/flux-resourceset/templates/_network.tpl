{{/* How a part is reached, and how many of its pods there are.
(dict "root" $ "part" crud or readonly "service" its Service's name "pods" the part whose pods answer "values" ...
"path" what is published of it) */}}
{{- define "api.network" -}}
{{- $root := .root }}
apiVersion: v1
kind: Service
metadata:
  name: {{ toYaml .service }}
  labels:
    {{- include "api.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .part }}
  {{- with .values.service.annotations }}
  annotations:
    {{- include "api.text" (list .) | nindent 4 }}
  {{- end }}
spec:
  type: {{ .values.service.type }}
  ports:
    - {name: http, port: {{ .values.service.port }}, targetPort: http}
  {{- if eq .part "readonly" }}
  # A cluster stays with one pod as long as that is ready, so that it does not see two ages of the fleet in turns.
  sessionAffinity: ClientIP
  {{- end }}
  selector:
    {{- include "api.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .pods }}
{{- if .values.ingress.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ toYaml .service }}
  labels:
    {{- include "api.labels" $root | nindent 4 }}
  {{- $annotations := .values.ingress.annotations | default dict }}
  {{- if eq .part "readonly" }}
  {{- /* The controller's address is that of all clusters, so the Service's affinity is of no use behind it. */}}
  {{- $affinity := dict "nginx.ingress.kubernetes.io/upstream-hash-by" "$uri" "haproxy-ingress.github.io/balance-algorithm" "uri" "haproxy.org/load-balance" "uri" }}
  {{- $annotations = mergeOverwrite $affinity $annotations }}
  {{- end }}
  {{- with $annotations }}
  annotations:
    {{- include "api.text" (list .) | nindent 4 }}
  {{- end }}
spec:
  {{- with .values.ingress.className }}
  ingressClassName: {{ toYaml . }}
  {{- end }}
  {{- with .values.ingress.tlsSecret }}
  tls:
    - hosts:
        {{- range prepend $.values.ingress.extraHosts $.values.ingress.host }}
        - {{ . | quote }}
        {{- end }}
      secretName: {{ toYaml . }}
  {{- end }}
  rules:
    {{- range prepend .values.ingress.extraHosts .values.ingress.host }}
    - host: {{ . | quote }}
      http:
        paths:
          - path: {{ $.path }}
            pathType: Prefix
            backend:
              service:
                name: {{ toYaml $.service }}
                port: {name: http}
    {{- end }}
{{- end }}
{{- if .values.httpRoute.enabled }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: {{ toYaml .service }}
  labels:
    {{- include "api.labels" $root | nindent 4 }}
  {{- with .values.httpRoute.annotations }}
  annotations:
    {{- include "api.text" (list .) | nindent 4 }}
  {{- end }}
spec:
  parentRefs:
    {{- toYaml .values.httpRoute.parentRefs | nindent 4 }}
  {{- with .values.httpRoute.hostnames }}
  hostnames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
    - matches:
        - path: {type: PathPrefix, value: {{ .path }}}
      backendRefs:
        - {name: {{ toYaml .service }}, port: {{ .values.service.port }}}
{{- end }}
{{- if eq .part .pods }}
{{- if .values.autoscaling.enabled }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $root.Values.name }}-{{ .part }}
  labels:
    {{- include "api.labels" $root | nindent 4 }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ $root.Values.name }}-{{ .part }}}
  minReplicas: {{ int64 .values.autoscaling.minReplicas }}
  maxReplicas: {{ int64 .values.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target: {type: Utilization, averageUtilization: {{ .values.autoscaling.targetCPUUtilizationPercentage }}}
{{- end }}
{{- if and .values.podDisruptionBudget.enabled (gt (include "api.leastPods" .values | int64) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $root.Values.name }}-{{ .part }}
  labels:
    {{- include "api.labels" $root | nindent 4 }}
spec:
  minAvailable: {{ toJson .values.podDisruptionBudget.minAvailable }}
  selector:
    matchLabels:
      {{- include "api.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .part }}
{{- end }}
{{- end }}
{{- end }}

{{/* How many pods of a part there are at least. */}}
{{- define "api.leastPods" -}}
{{ ternary .autoscaling.minReplicas .replicas .autoscaling.enabled | int64 }}
{{- end }}
