// Package helm_test tests the charts with the engine of the Helm version that scripts/tool runs. It is in this module
// because the product's own module does not depend on Helm.
package helm_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/engine"
)

const (
	charts  = "../../charts"
	service = "flux-resourceset"
	cluster = "flux-resourceset-cluster"
)

// render returns the output of `helm template` for a variant of a chart, with further settings as of --set.
func render(t *testing.T, chart, variant string, settings ...string) (string, error) {
	t.Helper()
	dir := filepath.Join(charts, chart)
	loaded, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	options := values.Options{Values: settings}
	if variant != "" {
		options.ValueFiles = []string{filepath.Join(dir, "ci", variant+"-values.yaml")}
	}
	given, err := options.MergeValues(nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(loaded, given, common.ReleaseOptions{Name: "release", Namespace: "flux-system", IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out.WriteString("---\n" + files[name])
	}
	return out.String(), nil
}

func rendered(t *testing.T, chart, variant string, settings ...string) string {
	t.Helper()
	out, err := render(t, chart, variant, settings...)
	if err != nil {
		t.Fatalf("%s with %q: %v", chart, settings, err)
	}
	return out
}

// Invalid values are refused with a message that names the remedy.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ chart, variant, set, reason string }{
		{service, "demo", "crud.replicas=2", "a SQLite file has one writer"},
		{service, "demo", "readonly.autoscaling.enabled=true", "autoscaling needs store.backend postgres"},
		{service, "demo", "store.postgres.existingSecret=x", "store.backend is sqlite"},
		{service, "demo", "config.requireClusterToken=true,config.gatesTrustSharedToken=true", "config.requireClusterToken and config.gatesTrustSharedToken exclude each other"},
		{service, "", "", "auth.existingSecret (or auth.readToken) is required"},
		{service, "sqlite", "auth.staticTokens=false", "auth.staticTokens is false, so auth.readToken and auth.writeToken must be empty"},
		{service, "", "auth.readToken=short", "auth.readToken has less than 16 characters"},
		{service, "demo", "store.backend=postgres", "store.postgres.existingSecret (or store.postgres.url) is required"},
		{service, "demo", "tls.clientCASecret=x", "client certificates need HTTPS"},
		{service, "demo", "tls.existingSecret=x,tls.requireClientCert=true", "tls.requireClientCert needs tls.clientCASecret"},
		{service, "demo", "crud.ingress.enabled=true", "crud.ingress.host is required"},
		{service, "demo", "readonly.httpRoute.enabled=true", "readonly.httpRoute.parentRefs is required"},
		{service, "demo", `crud.podLabels.app\.kubernetes\.io/component=web`, "crud.podLabels must not have app.kubernetes.io/component"},
		{service, "demo", `readonly.podLabels.app\.kubernetes\.io/instance=x`, "readonly.podLabels must not have app.kubernetes.io/instance"},
		{service, "demo", `commonLabels.app\.kubernetes\.io/name=x`, "commonLabels must not have app.kubernetes.io/name"},
		{service, "demo", "fullnameOverride=Fleet", "fullnameOverride"},
		{service, "demo", "backup.enabled=true,store.sqlite.persistence.enabled=false", "backup.enabled needs store.sqlite.persistence"},
		{service, "demo", "backup.enabled=true,backup.keep=0", "at '/backup/keep'"},
		{service, "demo", "backup.enabled=true,backup.s3.bucket=backups", "backup.s3.region is required"},
		{service, "demo", "backup.enabled=true,backup.s3.region=eu-central-1", "backup.s3.bucket is required"},
		{service, "demo", "backup.enabled=true,backup.s3.bucket=backups,backup.s3.region=x,backup.persistence.existingClaim=y", "exclude each other"},
		{service, "demo", "backup.enabled=true,backup.s3.bucket=Backups", "at '/backup/s3/bucket'"},
		{service, "demo", "backup.enabled=true,backup.s3.bucket=backups,backup.s3.prefix=/a", "at '/backup/s3/prefix'"},
		{service, "demo", "backup.enabled=true,backup.s3.bucket=backups,backup.s3.endpoint=minio:9000", "at '/backup/s3/endpoint'"},
		{service, "postgres", "lastGood.serveStaleAfterRestart=true", "lastGood.serveStaleAfterRestart needs crud.replicas and readonly.replicas to be 1 together"},
		{service, "postgres", "lastGood.serveStaleAfterRestart=true,crud.replicas=1,readonly.replicas=0,readonly.autoscaling.enabled=true", "and no autoscaling"},
		{service, "demo", "lastGood.serveStaleAfterRestart=24h", "at '/lastGood/serveStaleAfterRestart'"},
		{service, "demo", "tmp.sizeLimit=plenty", "at '/tmp/sizeLimit'"},
		{service, "demo", "replicas=2", "replicas: use crud.replicas or readonly.replicas"},
		{service, "demo", "ingres.enabled=true", "additional properties 'ingres' not allowed"},
		{cluster, "demo", "cluster.name=", "cluster.name is required"},
		{cluster, "demo", "dns=x", "dns: use cluster.dns"},
		{cluster, "demo", "tls.existingSecret=x", "tls: use api.tls"},
		{cluster, "demo", "cluster.dns=", "cluster.dns is required"},
		{cluster, "demo", "cluster.environment=", "cluster.environment is required"},
		{cluster, "demo", "api.url=", "api.url is required"},
		{cluster, "demo", "api.existingSecret=", "api.existingSecret (or api.token"},
		{cluster, "demo", "api.token=x", "exclude each other"},
		{cluster, "demo", "api.tls.existingSecret=x", "needs an https:// api.url"},
		{cluster, "demo", "inputsLimit=20000", "maximum: got 20,000, want 10,000"},
		{cluster, "demo", "cluster.dns=a b", "at '/cluster/dns'"},
		{cluster, "demo", "interval=often", "at '/interval'"},
		{cluster, "demo", "receipts.lists={secrets}", "at '/receipts/lists/0'"},
		{cluster, "demo", "customResources[0].type=quotas", "missing property 'template'"},
		{cluster, "demo", "customResources[0].type=a/b,customResources[0].template=x", "at '/customResources/0/type'"},
		{cluster, "demo", taken("namespaces"), `customResources: "namespaces" is there already`},
		{cluster, "demo", taken("rolebindings"), `customResources: "rolebindings" is there already`},
		{cluster, "demo", taken("quotas"), `customResources: "quotas" is there already`},
		{cluster, "demo", "pullSecrets[0].name=internal-api-token,pullSecrets[0].registry=a,pullSecrets[0].username=b,pullSecrets[0].password=c", `pullSecrets: Secret "internal-api-token" is there already`},
	} {
		t.Run(c.chart+" "+c.set, func(t *testing.T) {
			t.Parallel()
			_, err := render(t, c.chart, c.variant, c.set)
			if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("should be refused with %q, but: %v", c.reason, err)
			}
		})
	}
}

// taken returns values with a second resource type, of the given name, besides quotas.
func taken(name string) string {
	return "customResources[0].type=quotas,customResources[0].template=x,customResources[1].type=" + name + ",customResources[1].template=x"
}

// Receipts go to the address of the polls, list by list, and can be switched off.
func TestReceipts(t *testing.T) {
	t.Parallel()
	for set, lists := range map[string]int{"": 3, "receipts.lists={namespaces,rolebindings}": 2, "receipts.enabled=false": 0} {
		if got := strings.Count(rendered(t, cluster, "demo", set), "/demo-cluster-01.k8s.example.com/receipts\n"); got != lists {
			t.Errorf("%q: receipts of %d lists, not of %d", set, got, lists)
		}
	}
}

// Events of the operator's own kinds are selected by name, regardless of other objects on the cluster.
func TestEvents(t *testing.T) {
	t.Parallel()
	out := rendered(t, cluster, "custom", "events.enabled=true")
	for _, name := range []string{"platform-components", "namespaces", "rolebindings", "network-policies", "quotas"} {
		for _, kind := range []string{"ResourceSet", "ResourceSetInputProvider"} {
			if !strings.Contains(out, "    - kind: "+kind+"\n      name: "+name+"\n") {
				t.Errorf("no events of the %s %s", kind, name)
			}
		}
	}
}

// The templates reach the operator byte for byte, unprocessed by Helm.
func TestTemplatesAreShippedAsTheyAre(t *testing.T) {
	t.Parallel()
	out := rendered(t, cluster, "demo")
	files, err := filepath.Glob(filepath.Join(charts, cluster, "files", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, template, found := strings.Cut(string(text), "  resourcesTemplate: |\n")
		if !found || !strings.Contains(out, "  resourcesTemplate: |\n"+strings.TrimRight(template, "\n")+"\n") {
			t.Errorf("%s: the template in the chart's output is another one", file)
		}
	}
}

// Common requirements of a platform for workloads can be set by values, without a fork of the chart.
func TestWhatPlatformsAsk(t *testing.T) {
	t.Parallel()
	for setting, says := range map[string]string{
		"name=fleet":                   "name: fleet-crud\n",
		"commonLabels.team=platform":   "team: platform\n",
		"crud.podLabels.team=platform": "team: platform\n",
		"crud.initContainers[0].name=wait,crud.initContainers[0].image=x":               "initContainers:\n        - image: x\n          name: wait\n",
		"crud.extraContainers[0].name=proxy,crud.extraContainers[0].image=x":            "        - image: x\n          name: proxy\n",
		"crud.extraVolumes[0].name=ca,crud.extraVolumes[0].emptyDir.medium=Memory":      "medium: Memory\n          name: ca\n",
		"crud.extraVolumeMounts[0].name=ca,crud.extraVolumeMounts[0].mountPath=/ca":     "- mountPath: /ca\n              name: ca\n",
		"crud.terminationGracePeriodSeconds=77":                                         "terminationGracePeriodSeconds: 77\n",
		"crud.ingress.enabled=true,crud.ingress.host=a.x,crud.ingress.extraHosts={b.x}": "- host: \"b.x\"\n",
		"config.otlpEndpoint=http://collector:4318":                                     `{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector:4318"}`,
		"networkPolicy.enabled=true":                                                    "kind: NetworkPolicy\n",
		"serviceMonitor.enabled=true":                                                   "kind: ServiceMonitor\n",
		"prometheusRule.enabled=true":                                                   "kind: PrometheusRule\n",
		"dashboard.enabled=true":                                                        "flux_resourceset_commits_total",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(rendered(t, service, "demo"), says) {
				t.Errorf("it is there without being asked for: %q", says)
			}
			if out := rendered(t, service, "demo", setting); !strings.Contains(out, says) {
				t.Errorf("no %q in\n%s", says, out)
			}
		})
	}
}

// The network policy allows the connections that the chart's own values need: Postgres, and the trace collector.
func TestNetworkPolicyAllowsTheCollector(t *testing.T) {
	t.Parallel()
	for settings, ports := range map[string][]string{
		"":                                   nil,
		",config.otlpEndpoint=http://c:4318": {"53, protocol: UDP", "53, protocol: TCP", "4318, protocol: TCP"},
		",config.otlpEndpoint=https://c/x":   {"53, protocol: UDP", "53, protocol: TCP", "443, protocol: TCP"},
		",config.otlpEndpoint=http://[::1]":  {"53, protocol: UDP", "53, protocol: TCP", "80, protocol: TCP"},
	} {
		for _, variant := range []string{"demo", "postgres"} {
			want := ports
			if variant == "postgres" {
				want = append([]string{"53, protocol: UDP", "53, protocol: TCP", "5432, protocol: TCP"}, ports[min(len(ports), 2):]...)
			}
			_, policy, _ := strings.Cut(rendered(t, service, variant, "networkPolicy.enabled=true"+settings), "kind: NetworkPolicy\n")
			policy, _, _ = strings.Cut(policy, "\n---\n")
			var got []string
			for line := range strings.Lines(policy) {
				if port, is := strings.CutPrefix(strings.TrimSpace(line), "- {port: "); is && strings.Contains(port, "protocol") {
					got = append(got, strings.TrimSuffix(port, "}"))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s%s: egress to %q, not %q", variant, settings, got, want)
			}
		}
	}
}

// The rules for approvals and for tokens of clusters apply in all pods, and only if they are set.
func TestRequirements(t *testing.T) {
	t.Parallel()
	for setting, env := range map[string]string{
		"config.requireSecondPerson=true":   `{name: REQUIRE_SECOND_PERSON, value: "true"}`,
		"config.gatesTrustSharedToken=true": `{name: GATES_TRUST_SHARED_TOKEN, value: "true"}`,
		"config.secretValues=refuse":        `{name: SECRET_VALUES, value: refuse}`,
	} {
		for setting, want := range map[string]int{"": 0, setting: 2} {
			if got := strings.Count(rendered(t, service, "postgres", setting), env); got != want {
				t.Errorf("%q: %s in %d deployments, not %d", setting, env, got, want)
			}
		}
	}
}

// Only the own tokens of clusters count in a new installation. An upgrade keeps what its pods have, and what is set.
func TestRequireClusterToken(t *testing.T) {
	t.Parallel()
	const env = `{name: REQUIRE_CLUSTER_TOKEN, value: "true"}`
	for setting, want := range map[string]int{"": 2, "config.requireClusterToken=false": 0, "config.gatesTrustSharedToken=true": 0} {
		if got := strings.Count(rendered(t, service, "postgres", setting), env); got != want {
			t.Errorf("%q: %s in %d deployments, not %d", setting, env, got, want)
		}
	}
	for _, reuse := range []bool{false, true} {
		files, err := upgraded(t, service, "before-receipts", "postgres", reuse)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(slices.Collect(maps.Values(files)), "")
		if strings.Contains(all, env) || !strings.Contains(all, "an upgrade does not change it") {
			t.Errorf("reuse %t: an upgrade sets %s, or does not warn", reuse, env)
		}
	}
}

// Without static tokens no pod has one, no Secret holds one, and nothing refers to a Secret that must exist.
func TestWithoutStaticTokens(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"", "store.backend=postgres,store.postgres.existingSecret=database"} {
		out := rendered(t, service, "tokenless", strings.Split(setting, ",")...)
		for _, absent := range []string{"AUTH_TOKEN", "kind: Secret\n", "/flux-resourceset-cli, status"} {
			if strings.Contains(out, absent) {
				t.Errorf("%q: it has %s", setting, absent)
			}
		}
		if required := strings.Count(out, "name: flux-api-tokens"); required != strings.Count(out, "optional: true}") {
			t.Errorf("%q: %d references to the Secret, of which not all are optional", setting, required)
		}
	}
}

// The issuers reach only the pods that accept ID tokens.
func TestIssuers(t *testing.T) {
	t.Parallel()
	out := rendered(t, service, "postgres", "auth.oidcIssuers[0].name=corp", "auth.oidcIssuers[0].url=https://login.example.com", "auth.oidcIssuers[0].client_id=fleet")
	if want := `value: "[{\"client_id\":\"fleet\",\"name\":\"corp\",\"url\":\"https://login.example.com\"}]"`; strings.Count(out, "OIDC_ISSUERS") != 1 || !strings.Contains(out, want) {
		t.Errorf("not in one deployment: %s", want)
	}
}

// Temporary files cannot fill a node, in any pod.
func TestTheTemporaryDirectoryHasALimit(t *testing.T) {
	t.Parallel()
	for setting, says := range map[string]string{
		"":                   "        - name: tmp\n          emptyDir:\n            sizeLimit: 2Gi\n",
		"tmp.sizeLimit=10Gi": "        - name: tmp\n          emptyDir:\n            sizeLimit: 10Gi\n",
		"tmp.sizeLimit=":     "        - name: tmp\n          emptyDir: {}\n",
	} {
		if out := rendered(t, service, "postgres", setting); strings.Count(out, says) != 2 {
			t.Errorf("%q: not in both deployments: %q", setting, says)
		}
	}
}

// A backup is written to a volume or to a bucket. With a bucket there is no volume, and no key if a role suffices.
func TestBackupsInABucket(t *testing.T) {
	t.Parallel()
	job := func(settings string) string {
		_, job, _ := strings.Cut(rendered(t, service, "demo", "backup.enabled=true"+settings), "kind: CronJob")
		job, _, _ = strings.Cut(job, "kind: Deployment") // the next template
		return job
	}
	for settings, is := range map[string]struct{ has, lacks []string }{
		"": {
			[]string{"args: [backup, --dir, /backups, --keep, \"14\"]", "name: flux-api-backups\n"},
			[]string{"s3:", "AWS_", "S3_", "kind: ServiceAccount"},
		},
		",backup.s3.bucket=backups,backup.s3.prefix=fleet/,backup.s3.region=eu-central-1,backup.serviceAccount.create=true,backup.serviceAccount.annotations.role=x": {
			[]string{`args: [backup, --dir, "s3://backups/fleet/"]`, `{name: AWS_REGION, value: "eu-central-1"}`, "sizeLimit: 2Gi", "serviceAccountName: flux-api-backup\n", "kind: ServiceAccount\nmetadata:\n  name: flux-api-backup\n", "role: x"},
			[]string{"claimName: flux-api-backups", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE", "mountPath: /backups", "--keep"},
		},
		",backup.s3.bucket=backups,backup.s3.endpoint=https://minio:9000,backup.s3.addressing=path,backup.s3.existingSecret=keys,backup.s3.caSecret=ca": {
			[]string{
				`{name: AWS_ENDPOINT_URL_S3, value: "https://minio:9000"}`, "secretKeyRef: {name: keys, key: AWS_SECRET_ACCESS_KEY}", "{name: S3_ADDRESSING, value: path}",
				"{name: AWS_CA_BUNDLE, value: /s3-ca/ca.crt}", "secretName: ca,", "serviceAccountName: flux-api\n",
			},
			[]string{"AWS_REGION", "kind: ServiceAccount"},
		},
	} {
		out := job(settings)
		for _, part := range is.has {
			if !strings.Contains(out, part) {
				t.Errorf("%q: no %q in\n%s", settings, part, out)
			}
		}
		for _, part := range is.lacks {
			if strings.Contains(out, part) {
				t.Errorf("%q: %q in\n%s", settings, part, out)
			}
		}
	}
}

// The installation notes mention the fleet page and its needs with several replicas.
func TestNotes(t *testing.T) {
	t.Parallel()
	const page, key = "://127.0.0.1:8080/ui/", "key session-key of Secret"
	for settings, says := range map[string][2]bool{
		"crud.replicas=1": {true, false},
		"crud.replicas=2": {true, true},
		"crud.replicas=1,crud.autoscaling.enabled=true": {true, true},
		"crud.replicas=2,page.enabled=false":            {false, false},
	} {
		out := rendered(t, service, "postgres", settings)
		if strings.Contains(out, page) != says[0] || strings.Contains(out, key) != says[1] {
			t.Errorf("%s:\n%s", settings, out)
		}
	}
}

// A pod serves a fleet from its disk that is older than MAX_STALENESS only if no other pod answers polls. The server
// chooses the default age limit by its store, unless a value sets it. Values of a release with other defaults still
// render.
func TestStaleness(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		variant, set string
		want, not    []string
	}{
		{"sqlite", "", []string{"SERVE_STALE_AFTER_RESTART"}, []string{"STATE_MAX_AGE", "MAX_STALENESS", "SHUTDOWN_DELAY"}},
		{"sqlite", "lastGood.maxAge=48h", []string{"SERVE_STALE_AFTER_RESTART", `{name: STATE_MAX_AGE, value: "48h"}`}, nil},
		{"sqlite", "lastGood.serveStaleAfterRestart=false", []string{"STATE_DIR"}, []string{"SERVE_STALE_AFTER_RESTART"}},
		{"postgres", "", []string{"STATE_DIR", "{name: SHUTDOWN_DELAY, value: 5s}"}, []string{"SERVE_STALE_AFTER_RESTART", "STATE_MAX_AGE", "MAX_STALENESS"}},
		{"postgres", "config.maxStaleness=30s", []string{`{name: MAX_STALENESS, value: "30s"}`}, nil},
		{"postgres", "lastGood.maxAge=24h,config.maxStaleness=2m", nil, []string{"SERVE_STALE_AFTER_RESTART", "STATE_MAX_AGE"}},
		{"postgres", "lastGood.serveStaleAfterRestart=true,crud.replicas=1,readonly.replicas=0,readonly.autoscaling.enabled=false", []string{"SERVE_STALE_AFTER_RESTART"}, nil},
	} {
		out := rendered(t, service, c.variant, c.set)
		for _, text := range c.want {
			if !strings.Contains(out, text) {
				t.Errorf("%s with %q: no %s", c.variant, c.set, text)
			}
		}
		for _, text := range c.not {
			if strings.Contains(out, text) {
				t.Errorf("%s with %q: there is %s", c.variant, c.set, text)
			}
		}
	}
}

// A cluster's list is polled from one pod while that is ready, also through an ingress. A user's own annotation takes
// precedence.
func TestAffinity(t *testing.T) {
	t.Parallel()
	const ingress = "readonly.ingress.enabled=true,readonly.ingress.host=poll.example.com"
	out := rendered(t, service, "postgres", ingress)
	for _, text := range []string{"sessionAffinity: ClientIP", "nginx.ingress.kubernetes.io/upstream-hash-by: $uri", "haproxy.org/load-balance: uri"} {
		if !strings.Contains(out, text) {
			t.Errorf("no %s", text)
		}
	}
	own := rendered(t, service, "postgres", ingress, `readonly.ingress.annotations.nginx\.ingress\.kubernetes\.io/upstream-hash-by=$host`)
	if !strings.Contains(own, "upstream-hash-by: $host") || strings.Contains(own, "upstream-hash-by: $uri") {
		t.Error("the annotation that a user gave is not there")
	}
}

// Names can be overridden as in other charts.
func TestNameOverrides(t *testing.T) {
	t.Parallel()
	plain := rendered(t, service, "demo")
	got := rendered(t, service, "demo", "fullnameOverride=fleet", "nameOverride=fleet-api", "extraObjects[0].data.api=of-{{ .Values.name }}")
	for _, want := range []string{"name: fleet-crud\n", "app.kubernetes.io/name: fleet-api\n", "api: of-fleet\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "name: flux-api-crud") || strings.Contains(got, "app.kubernetes.io/name: flux-resourceset") {
		t.Error("a name is not overridden")
	}
	if again := rendered(t, service, "demo", "fullnameOverride=", "nameOverride=", "name=flux-api"); again != plain {
		t.Error("empty overrides change something")
	}
}

// Extra objects are maps or texts, and templates in them are executed.
func TestExtraObjects(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{service, cluster} {
		got := rendered(t, chart, "demo", "extraObjects[0].kind=ConfigMap", "extraObjects[0].metadata.name=more-{{ .Release.Name }}",
			"extraObjects[1]=apiVersion: v1\nkind: Secret\ntype: {{ .Chart.Name }}")
		for _, want := range []string{"---\nkind: ConfigMap\nmetadata:\n  name: more-release\n", "---\napiVersion: v1\nkind: Secret\ntype: " + chart + "\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		if _, err := render(t, chart, "demo", "extraObjects[0]=1"); err == nil || !strings.Contains(err.Error(), "at '/extraObjects/0'") {
			t.Errorf("%s: a number as an object: %v", chart, err)
		}
	}
}
