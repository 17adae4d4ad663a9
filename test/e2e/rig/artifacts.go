package rig

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// chartVersions are the versions in a chart repository. It has no chart whose name begins with noChart.
var chartVersions = []string{"1.0.0", "1.1.0", "2.0.0", BrokenVersion}

// BrokenVersion is the version of charts that cannot be installed. It is a prerelease, which a range does not select.
const BrokenVersion = "2.1.0-broken"

const noChart = "absent"

// noVersion is the prefix of versions and tags that do not exist.
const noVersion = "9."

// chart packages a Helm chart: a Deployment of replicaCount replicas, and a ConfigMap with the values as Helm knows
// them, one JSON text. With hookFails and in BrokenVersion, a hook that the cluster refuses. The names of the objects end in
// suffix, so that several clusters of one control plane can install one release. A chart whose name begins with crdChart has a
// CustomResourceDefinition named after it, with a description of the version; one whose name begins with schemaChart has a schema that no
// values fit. Values also request:
//
//   - slow: a load balancer that is never ready; job: a Job that never ends; extra: a ConfigMap;
//   - tests: the names of tests. Those that begin with "bad" fail, those that begin with "pod" never end.
func chart(name, version string) ([]byte, error) { return archive(chartFiles(name, version)) }

func chartFiles(name, version string) map[string]string {
	const object = `{{ $object := .Release.Name }}{{ with .Values.suffix }}{{ $object = printf "%s-%s" $object . }}{{ end }}`
	files := map[string]string{
		name + "/Chart.yaml":  fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\nkubeVersion: \">=1.30.0-0\"\n", name, version),
		name + "/values.yaml": "replicaCount: 1\n",
		name + "/templates/deployment.yaml": object + `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $object }}
  labels: {chart: "{{ .Chart.Name }}", version: "{{ .Chart.Version | replace "+" "_" }}"}
spec:
  replicas: {{ .Values.replicaCount }}
  selector: {matchLabels: {app: "{{ $object }}"}}
  template:
    metadata: {labels: {app: "{{ $object }}"}}
    spec: {containers: [{name: main, image: "example.com/podinfo:1"}]}
`,
		name + "/templates/values.yaml": object + `
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ $object }}-values"}
data: {values: {{ .Values | toJson | quote }}, version: {{ .Chart.Version | quote }}}
`,
		name + "/templates/hook.yaml": `{{ if or .Values.hookFails (eq .Chart.Version "` + BrokenVersion + `") }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: "not a name"
  annotations: {helm.sh/hook: "pre-install,pre-upgrade,pre-rollback"}
{{ end }}
`,
		name + "/templates/optional.yaml": object + `
{{ if .Values.extra }}
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ $object }}-extra"}
{{ end }}
---
{{ if .Values.slow }}
apiVersion: v1
kind: Service
metadata: {name: "{{ $object }}"}
spec: {type: LoadBalancer, ports: [{port: 80}]}
{{ end }}
---
{{ if .Values.job }}
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ $object }}"}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "example.com/podinfo:1"}]}}}
{{ end }}
{{ range .Values.tests }}
---
apiVersion: v1
kind: {{ ternary "Pod" "ConfigMap" (hasPrefix "pod" .) }}
metadata:
  name: "{{ . }}"
  annotations: {helm.sh/hook: test}
{{ if hasPrefix "bad" . }}immutable: not a boolean{{ end }}
{{ if hasPrefix "pod" . }}spec: {containers: [{name: main, image: "example.com/podinfo:1"}]}{{ end }}
{{ end }}
`,
	}
	if strings.HasPrefix(name, crdChart) {
		files[name+"/crds/crd.yaml"] = fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s.example.com}
spec:
  group: %[1]s.example.com
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, description: version %[2]s}}}]
`, name, version)
	}
	if strings.HasPrefix(name, schemaChart) {
		files[name+"/values.schema.json"] = `{"required": ["missing"]}`
	}
	return files
}

const (
	crdChart    = "crd-"
	schemaChart = "schema-"
)

// tree packages the files of a kustomize repository as they are at a tag. apps/NAME has a ConfigMap NAME that names
// the tag and takes two substitutions, an overlay for each environment, and at tags other than v2 a ConfigMap
// NAME-old besides. apps/NAME/slow has a Deployment that is not available for minutes, components/extra adds a ConfigMap extra.
func tree(tag string, names ...string) ([]byte, error) {
	files := map[string]string{
		"components/extra/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [extra.yaml]\n",
		"components/extra/extra.yaml":         configMap("extra"),
	}
	for _, name := range names {
		base := "apps/" + name
		resources := "resources: [config.yaml, old.yaml]\n"
		files[base+"/old.yaml"] = configMap(name+"-old", "tag: "+tag)
		if tag == "v2" {
			resources = "resources: [config.yaml]\n"
			delete(files, base+"/old.yaml")
		}
		files[base+"/kustomization.yaml"] = "namespace: default\n" + resources
		files[base+"/config.yaml"] = configMap(name, "tag: "+tag, `color: ${color:=none}`, `text: "replicas ${replicas:=1}"`)
		files[base+"/slow/kustomization.yaml"] = "namespace: default\nresources: [slow.yaml]\n"
		files[base+"/slow/slow.yaml"] = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + "}\nspec:\n  minReadySeconds: 500\n" +
			"  selector: {matchLabels: {app: a}}\n  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: \"example.com/podinfo:1\"}]}}\n"
		for _, environment := range []string{"dev", "prod"} {
			overlay := base + "/" + environment
			files[overlay+"/kustomization.yaml"] = "namespace: default\nresources: [config.yaml]\n"
			files[overlay+"/config.yaml"] = configMap(name, "tag: "+tag, "environment: "+environment)
		}
	}
	return archive(files)
}

func configMap(name string, data ...string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata:\n  " + strings.Join(data, "\n  ") + "\n"
}

// archive makes a .tar.gz, the same bytes for the same files.
func archive(files map[string]string) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := packed.Write([]byte(files[name])); err != nil {
			return nil, err
		}
	}
	if err := packed.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
