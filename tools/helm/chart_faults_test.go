package helm_test

import (
	"strings"
	"testing"
)

const (
	onSQLite   = "auth: {existingSecret: x}\n"
	onPostgres = "auth: {existingSecret: x}\nstore: {backend: postgres, postgres: {existingSecret: p}}\n"
)

// want compares a field of an object with JSON.
func want(t *testing.T, found map[string]object, key, json string, path ...string) {
	t.Helper()
	o, is := found[key]
	if !is {
		t.Errorf("there is no %s", key)
	} else if got := o.at(path...); got != json {
		t.Errorf("%s: %s is %s, not %s", key, strings.Join(path, "."), got, json)
	}
}

// The job can run wherever the pod is beside which it has to run, and so can the pods of `helm test`.
func TestTheBackupRunsWhereTheServiceDoes(t *testing.T) {
	t.Parallel()
	const crud = "backup: {enabled: true}\ncrud: {nodeSelector: {pool: infra}, tolerations: [{key: dedicated, value: infra, effect: NoSchedule}], priorityClassName: high}\n"
	job, test := []string{"spec", "jobTemplate", "spec", "template", "spec"}, []string{"spec"}
	for _, values := range []string{onSQLite + crud, onPostgres + crud} {
		found := valid(t, service, values)
		for key, path := range map[string][]string{"CronJob flux-api-backup": job, "Pod flux-api-test": test, "Pod flux-api-read-test": test} {
			want(t, found, key, `{"pool":"infra"}`, append(path, "nodeSelector")...)
			want(t, found, key, `[{"effect":"NoSchedule","key":"dedicated","value":"infra"}]`, append(path, "tolerations")...)
			want(t, found, key, `"high"`, append(path, "priorityClassName")...)
		}
	}
}

// A number from a file of values is a float to Helm, which writes 1000000 as 1e+06.
func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	found := valid(t, service, onPostgres+`
config: {maxRemovals: 1000000}
backup: {enabled: true, keep: 1000000}
podSecurityContext: {runAsUser: 1000660000}
crud:
  replicas: 2000000
  terminationGracePeriodSeconds: 3000000
  podDisruptionBudget: {minAvailable: 1000000}
readonly: {autoscaling: {enabled: true, minReplicas: 1000000, maxReplicas: 4000000}}
`)
	want(t, found, "CronJob flux-api-backup", `["backup","--dir","/backups","--keep","1000000"]`, "spec", "jobTemplate", "spec", "template", "spec", "containers", "args")
	want(t, found, "Deployment flux-api-crud", `2000000`, "spec", "replicas")
	want(t, found, "PodDisruptionBudget flux-api-crud", `1000000`, "spec", "minAvailable")
	want(t, found, "HorizontalPodAutoscaler flux-api-readonly", `4000000`, "spec", "maxReplicas")
	if env := found["Deployment flux-api-crud"].at("spec", "template", "spec", "containers", "env"); !strings.Contains(env, `{"name":"MAX_REMOVALS","value":"1000000"}`) {
		t.Error(env)
	}
}

// A label or annotation that is given twice, or that the chart has too, is rendered once, and the nearer one counts.
func TestLabelsAreThereOnce(t *testing.T) {
	t.Parallel()
	found := valid(t, service, onSQLite+`
commonLabels: {team: platform, a: b}
crud: {podLabels: {team: payments}, podAnnotations: {checksum/config: own}}
store: {sqlite: {persistence: {annotations: {helm.sh/resource-policy: none}}}}
serviceMonitor: {enabled: true, labels: {team: metrics}}
prometheusRule: {enabled: true, labels: {team: alerts}}
dashboard: {enabled: true, labels: {team: dashboards, grafana_dashboard: "1"}}
`)
	for key, team := range map[string]string{
		"Service flux-api": "platform", "ServiceMonitor flux-api": "metrics", "PrometheusRule flux-api": "alerts", "ConfigMap flux-api-dashboard": "dashboards",
	} {
		want(t, found, key, `"`+team+`"`, "metadata", "labels", "team")
	}
	want(t, found, "Deployment flux-api-crud", `"payments"`, "spec", "template", "metadata", "labels", "team")
	want(t, found, "Deployment flux-api-crud", `"b"`, "spec", "template", "metadata", "labels", "a")
	want(t, found, "Deployment flux-api-crud", `"own"`, "spec", "template", "metadata", "annotations", "checksum/config")
	want(t, found, "PersistentVolumeClaim flux-api-data", `"none"`, "metadata", "annotations", "helm.sh/resource-policy")
}

// A value that YAML reads as a number or boolean is text in an annotation and a selector of nodes.
func TestAnnotationsAreText(t *testing.T) {
	t.Parallel()
	const annotations = "{prometheus.io/scrape: true, prometheus.io/port: 8080, big: 1000000, text: \"1e3\"}"
	found := valid(t, service, onPostgres+strings.ReplaceAll(`
serviceAccount: {annotations: $}
crud: {podAnnotations: $, nodeSelector: {dedicated: true}, service: {annotations: $}, ingress: {enabled: true, host: a.example.com, annotations: $}}
readonly: {podAnnotations: $, nodeSelector: {zone: 1}, service: {annotations: $}, httpRoute: {enabled: true, annotations: $, parentRefs: [{name: g}]}, ingress: {enabled: true, host: b.example.com, annotations: $}}
backup: {enabled: true, persistence: {annotations: $}, serviceAccount: {create: true, annotations: $}}
`, "$", annotations))
	for _, key := range []string{
		"ServiceAccount flux-api", "ServiceAccount flux-api-backup", "Service flux-api", "Service flux-api-read", "Ingress flux-api", "Ingress flux-api-read",
		"HTTPRoute flux-api-read", "PersistentVolumeClaim flux-api-backups",
	} {
		for name, value := range map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "big": "1000000", "text": "1e3"} {
			want(t, found, key, `"`+value+`"`, "metadata", "annotations", name)
		}
	}
	want(t, found, "Deployment flux-api-readonly", `"8080"`, "spec", "template", "metadata", "annotations", "prometheus.io/port")
	want(t, found, "Deployment flux-api-crud", `{"dedicated":"true"}`, "spec", "template", "spec", "nodeSelector")
	want(t, found, "CronJob flux-api-backup", `{"dedicated":"true"}`, "spec", "jobTemplate", "spec", "template", "spec", "nodeSelector")
	valid(t, service, onSQLite+"crud: {service: {annotations: {a: 1}}}\nstore: {sqlite: {persistence: {annotations: "+annotations+"}}}")
}

// Constraints without a selector would spread nothing.
func TestSpreadConstraintsSelectThePods(t *testing.T) {
	t.Parallel()
	found := valid(t, service, onPostgres+`
readonly:
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
crud:
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}
`)
	path := []string{"spec", "template", "spec", "topologySpreadConstraints", "labelSelector"}
	want(t, found, "Deployment flux-api-readonly", `{"matchLabels":{"app.kubernetes.io/component":"readonly","app.kubernetes.io/instance":"release","app.kubernetes.io/name":"flux-resourceset"}}`, path...)
	want(t, found, "Deployment flux-api-crud", `{"matchLabels":{"a":"b"}}`, path...)
}

// A budget that no pod may be missing from blocks each drain of a node.
func TestBudgetsLetANodeDrain(t *testing.T) {
	t.Parallel()
	for values, made := range map[string]bool{
		"autoscaling: {enabled: true, minReplicas: 1}": false,
		"autoscaling: {enabled: true, minReplicas: 2}": true,
		"replicas: 1": false,
		"replicas: 2": true,
		"replicas: 2\n  podDisruptionBudget: {minAvailable: 50%}": true,
	} {
		_, is := valid(t, service, onPostgres+"readonly:\n  "+values)["PodDisruptionBudget flux-api-readonly"]
		if is != made {
			t.Errorf("%s: a budget: %t", values, is)
		}
	}
}

// Every pod can pull from a private registry, and an autoscaler alone decides the number of pods.
func TestPullSecretsAndAutoscaling(t *testing.T) {
	t.Parallel()
	found := valid(t, service, onPostgres+`
image: {pullSecrets: [{name: registry}]}
backup: {enabled: true}
crud: {autoscaling: {enabled: true}}
readonly: {autoscaling: {enabled: true}}
`)
	pods := 0
	for key := range found {
		for kind, path := range map[string][]string{
			"Deployment ": {"spec", "template", "spec"}, "CronJob ": {"spec", "jobTemplate", "spec", "template", "spec"}, "Pod ": {"spec"},
		} {
			if strings.HasPrefix(key, kind) {
				want(t, found, key, `[{"name":"registry"}]`, append(path, "imagePullSecrets")...)
				pods++
			}
		}
		if strings.HasPrefix(key, "Deployment ") {
			want(t, found, key, "null", "spec", "replicas")
		}
	}
	if pods != 5 {
		t.Errorf("there are %d objects with pods, not 5", pods)
	}
}

// The policy lets out what other values need: issuers, registries, receivers of webhooks, and what egress adds.
func TestNetworkPolicyEgress(t *testing.T) {
	t.Parallel()
	for values, ports := range map[string]string{
		`config: {versionScan: true}`:                                 "443",
		`config: {versionScan: true, versionScanAllowHTTP: true}`:     "443 80",
		`config: {sources: true}`:                                     "443",
		`config: {sources: true, versionScanAllowHTTP: true}`:         "443 80",
		`config: {publicURL: "https://f.example.com"}`:                "443",
		`config: {publicURL: "https://f", webhookAllowHTTP: true}`:    "443 80",
		`config: {otlpEndpoint: "https://c", versionScan: true}`:      "443",
		`config: {otlpEndpoint: "https://c:4318", versionScan: true}`: "4318 443",
	} {
		wantEgress(t, onSQLite+"networkPolicy: {enabled: true}\n"+values, ports)
	}
	const issuers = "auth: {existingSecret: x, oidcIssuers: [{name: a, url: \"https://login.example.com\"}, {name: b, url: \"http://idp:8443/realms/x\"}, {name: c, url: \"https://idp:9443\", jwks_file: /keys}]}\n"
	wantEgress(t, issuers+"networkPolicy: {enabled: true}", "443 8443")
	policy := valid(t, service, onSQLite+"networkPolicy: {enabled: true, egress: [{ports: [{port: 5000}], to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}")["NetworkPolicy flux-api"]
	if got := policy.at("spec", "egress"); !strings.Contains(got, `{"ports":[{"port":5000}],"to":[{"ipBlock":{"cidr":"10.0.0.0/8"}}]}`) || !strings.Contains(got, `{"port":53,"protocol":"UDP"}`) {
		t.Error(got)
	}
}

// Sources reach registries with the settings of scans, also without scans.
func TestSourcesWithoutScans(t *testing.T) {
	t.Parallel()
	crud := valid(t, service, onPostgres+`config: {sources: true, versionScanAllowPrivate: true, registryAuthFile: /registry/config.json, registryCAFile: /registry/ca.pem}`)["Deployment flux-api-crud"]
	env := crud.at("spec", "template", "spec", "containers", "env")
	for _, one := range []string{`{"name":"REGISTRY_AUTH_FILE","value":"/registry/config.json"}`, `{"name":"REGISTRY_CA_FILE","value":"/registry/ca.pem"}`, `{"name":"VERSION_SCAN_ALLOW_PRIVATE","value":"true"}`} {
		if !strings.Contains(env, one) {
			t.Errorf("the container has no %s", one)
		}
	}
	if strings.Contains(env, `"VERSION_SCAN"`) {
		t.Error("it scans")
	}
}

func wantEgress(t *testing.T, values, ports string) {
	t.Helper()
	egress := `[{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]}`
	for port := range strings.FieldsSeq(ports) {
		egress += `,{"ports":[{"port":` + port + `,"protocol":"TCP"}]}`
	}
	want(t, valid(t, service, values), "NetworkPolicy flux-api", egress+"]", "spec", "egress")
}

// Values that Kubernetes or the server would refuse later, or that block each other, are refused with the value's name.
func TestValuesThatFailLater(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 59)
	for values, reason := range map[string]string{
		onSQLite + "config: {extraEnv: [{name: LOG_LEVEL, value: debug}]}":                          "config.extraEnv must not have LOG_LEVEL, which the chart sets",
		onSQLite + "config: {extraEnv: [{name: SERVE_STALE_AFTER_RESTART, value: x}]}":              "config.extraEnv must not have SERVE_STALE_AFTER_RESTART",
		onSQLite + "config: {extraEnv: [{name: A, value: x}, {name: A, value: z}]}":                 "config.extraEnv has A twice",
		onSQLite + "config: {extraEnv: [{name: N, value: 5}]}":                                      "at '/config/extraEnv/0/value'",
		onSQLite + "nameOverride: " + long:                                                          "at '/nameOverride'",
		onSQLite + "commonLabels: {team: " + long + "nnnnn}":                                        "at '/commonLabels/team'",
		onSQLite + "crud: {podAnnotations: {a: {b: c}}}":                                            "at '/crud/podAnnotations/a'",
		onSQLite + "image: {pullSecrets: [registry]}":                                               "at '/image/pullSecrets/0'",
		onSQLite + "config: {environments: [dev, live]}":                                            "config.protectedEnvironments has prod, which is not one of config.environments",
		onPostgres + "readonly: {autoscaling: {enabled: true, minReplicas: 9}}":                     "readonly.autoscaling.minReplicas is more than maxReplicas",
		onPostgres + "readonly: {autoscaling: {enabled: true}, resources: {requests: {cpu: null}}}": "readonly.autoscaling needs readonly.resources.requests.cpu",
		onPostgres + "readonly: {autoscaling: {enabled: true}, resources: null}":                    "readonly.autoscaling needs readonly.resources.requests.cpu",
		onPostgres + "readonly: {podDisruptionBudget: {minAvailable: 2}}":                           "readonly.podDisruptionBudget.minAvailable lets no pod of 2 go",
		onPostgres + "readonly: {podDisruptionBudget: {minAvailable: 60%}}":                         "readonly.podDisruptionBudget.minAvailable lets no pod of 2 go",
		onPostgres + "readonly: {podDisruptionBudget: {minAvailable: all}}":                         "at '/readonly/podDisruptionBudget/minAvailable'",
		onPostgres + "crud: {ingress: {enabled: true, host: a.x, tlsSecret: a}}\nreadonly: {ingress: {enabled: true, host: b.x, extraHosts: [a.x], tlsSecret: b}}": "crud.ingress and readonly.ingress both have the host a.x, so className and tlsSecret must be the same",
		onPostgres + "crud: {ingress: {enabled: true, host: a.x, extraHosts: [a.x]}}":                                                                              "crud.ingress has the host a.x twice",
		onSQLite + "config: {otlpEndpoint: collector:4317}":                                                                                                        "at '/config/otlpEndpoint'",
		onSQLite + "replicas: 2":                     "replicas: use crud.replicas or readonly.replicas",
		onSQLite + "replicaCount: 2":                 "replicaCount: use crud.replicas or readonly.replicas",
		onSQLite + "ingress: {enabled: true}":        "ingress: use crud.ingress or readonly.ingress",
		onSQLite + "resources: {}\nextraEnv: []":     "resources: use crud.resources or readonly.resources",
		onSQLite + "imagePullSecrets: [{name: x}]":   "imagePullSecrets: use image.pullSecrets",
		onSQLite + "nodeSelector: {a: b}":            "nodeSelector: use crud.nodeSelector or readonly.nodeSelector",
		onSQLite + "extraEnv: [{name: A, value: b}]": "extraEnv: use config.extraEnv",
		onSQLite + "persistence: {enabled: false}":   "persistence: use store.sqlite.persistence",
	} {
		if _, err := renderFile(t, service, values); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("should be refused with %q, but: %v\n%s", reason, err, values)
		}
	}
}
