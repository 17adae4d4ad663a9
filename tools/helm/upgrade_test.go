package helm_test

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/engine"
)

// upgraded renders a chart with the values of an earlier release, testdata/CHART-RELEASE.yaml, and of a variant. With
// reuse it works like `helm upgrade --reuse-values`: the chart's own values.yaml is ignored, so later values are absent.
func upgraded(t *testing.T, chart, release, variant string, reuse bool) (map[string]string, error) {
	t.Helper()
	dir := filepath.Join(charts, chart)
	loaded, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	options := values.Options{ValueFiles: []string{
		filepath.Join("testdata", chart+"-"+release+".yaml"), filepath.Join(dir, "ci", variant+"-values.yaml"),
	}}
	given, err := options.MergeValues(nil)
	if err != nil {
		t.Fatal(err)
	}
	if reuse {
		loaded.Values, given = given, map[string]any{}
	}
	all, err := util.ToRenderValues(loaded, given, common.ReleaseOptions{Name: "release", Namespace: "flux-system", IsUpgrade: true, Revision: 2}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

// `helm upgrade --reuse-values` renders the same as `helm upgrade` with those values in a file. A value that an earlier
// release did not have belongs into the template newValues of its chart.
func TestUpgradeReusesValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ chart, release, variant string }{
		{cluster, "before-receipts", "demo"},
		{cluster, "before-receipts", "custom"},
		{cluster, "before-receipts", "mtls"},
		{cluster, "0.1.0", "demo"},
		{cluster, "0.1.0", "events"},
		{service, "before-receipts", "demo"},
		{service, "before-receipts", "postgres"},
		{service, "0.1.0", "sqlite"},
		{service, "0.1.0", "postgres"},
	} {
		t.Run(c.chart+" "+c.release+" "+c.variant, func(t *testing.T) {
			t.Parallel()
			want, err := upgraded(t, c.chart, c.release, c.variant, false)
			if err != nil {
				t.Fatal(err)
			}
			got, err := upgraded(t, c.chart, c.release, c.variant, true)
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range want {
				if got[name] != text {
					t.Errorf("%s is\n%s\nnot\n%s", name, got[name], text)
				}
			}
			if !maps.Equal(got, want) {
				t.Error("the files differ")
			}
		})
	}
}

// cluster.dns must not change: an upgrade with the values of another cluster is refused if ConfigMap cluster-identity
// names this one.
func TestUpgradeWithTheValuesOfAnotherCluster(t *testing.T) {
	t.Parallel()
	const own = "demo-cluster-01.k8s.example.com"
	for known, refused := range map[string]bool{"": false, own: false, "Demo-Cluster-01.k8s.example.com.": false, "demo-cluster-02.k8s.example.com": true} {
		var objects []runtime.Object
		if known != "" {
			objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": "cluster-identity", "namespace": "flux-system"}, "data": map[string]any{"CLUSTER_DNS": known},
			}})
		}
		loaded, err := loader.Load(filepath.Join(charts, cluster))
		if err != nil {
			t.Fatal(err)
		}
		options := values.Options{ValueFiles: []string{filepath.Join(charts, cluster, "ci", "demo-values.yaml")}}
		given, err := options.MergeValues(nil)
		if err != nil {
			t.Fatal(err)
		}
		all, err := util.ToRenderValues(loaded, given, common.ReleaseOptions{Name: "release", Namespace: "flux-system", IsUpgrade: true, Revision: 2}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = engine.RenderWithClientProvider(loaded, all, configMaps{fake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)})
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "the values are of another cluster") {
			t.Errorf("on cluster %q: %v", known, err)
		}
	}
}

// configMaps simulates a cluster for the function lookup.
type configMaps struct{ client dynamic.Interface }

func (c configMaps) GetClientFor(_, _ string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}), true, nil
}
