package helm_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// renderFile returns the files that `helm template -f` makes of values in YAML, and the error of `helm install`.
func renderFile(t *testing.T, chart, text string) (map[string]string, error) {
	t.Helper()
	loaded, err := loader.Load(filepath.Join(charts, chart))
	if err != nil {
		t.Fatal(err)
	}
	given, err := common.ReadValues([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(loaded, given, common.ReleaseOptions{Name: "release", Namespace: "flux-system", IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

// object is one that a chart renders, and all that an API server refuses in it.
type object struct {
	*unstructured.Unstructured
	problems []string
}

// objects returns what a chart renders of values in YAML by kind and name.
func objects(t *testing.T, chart, text string) (map[string]object, error) {
	t.Helper()
	files, err := renderFile(t, chart, text)
	if err != nil {
		return nil, err
	}
	found := map[string]object{}
	for name, file := range files {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		for _, document := range strings.Split("\n"+file, "\n---") {
			var content map[string]any
			if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil {
				return nil, fmt.Errorf("%s: %w in\n%s", name, err, document)
			}
			if content == nil {
				continue
			}
			o := object{Unstructured: &unstructured.Unstructured{Object: content}}
			o.problems = problems(o.Unstructured, document)
			key := o.GetKind() + " " + o.GetName()
			if _, twice := found[key]; twice {
				o.problems = append(o.problems, "it is there twice")
			}
			found[key] = o
		}
	}
	return found, nil
}

// valid is objects of which an API server accepts each.
func valid(t *testing.T, chart, text string) map[string]object {
	t.Helper()
	found, err := objects(t, chart, text)
	if err != nil {
		t.Fatalf("%v of\n%s", err, text)
	}
	for key, o := range found {
		for _, problem := range o.problems {
			t.Errorf("%s: %s\nof %s", key, problem, text)
		}
	}
	return found
}

// at is a field of an object, as JSON.
func (o object) at(path ...string) string {
	var value any = o.Object
	for _, name := range path {
		switch at := value.(type) {
		case map[string]any:
			value = at[name]
		case []any:
			value = at[0]
			if fields, ok := value.(map[string]any); ok && name != "0" {
				value = fields[name]
			}
		}
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return err.Error()
	}
	flow, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err.Error()
	}
	return string(flow)
}

var (
	strict = json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	// The schema that an API server publishes, as server-side apply uses it: a list has each of its keys once.
	typed = applyconfigurations.NewTypeConverter(scheme.Scheme)
)

// problems is why an API server refuses an object. Of custom resources it checks only the metadata.
func problems(o *unstructured.Unstructured, document string) (found []string) {
	for _, err := range validation.ValidateObjectMetaAccessor(o, o.GetNamespace() != "", validation.NameIsDNSSubdomain, field.NewPath("metadata")) {
		found = append(found, err.Error())
	}
	if o.GetKind() == "Service" || o.GetKind() == "CronJob" {
		for _, message := range validation.NameIsDNS1035Label(o.GetName(), false) {
			found = append(found, message)
		}
	}
	for _, path := range [][]string{{"spec", "template"}, {"spec", "jobTemplate", "spec", "template"}} {
		template, _, _ := unstructured.NestedMap(o.Object, path...)
		labels, _, err := unstructured.NestedStringMap(template, "metadata", "labels")
		if err != nil {
			found = append(found, err.Error())
		}
		for _, err := range metavalidation.ValidateLabels(labels, field.NewPath("labels")) {
			found = append(found, err.Error())
		}
	}
	if !scheme.Scheme.Recognizes(o.GroupVersionKind()) {
		return found
	}
	if _, _, err := strict.Decode([]byte(document), nil, nil); err != nil {
		return append(found, err.Error())
	}
	if _, err := typed.ObjectToTyped(o); err != nil {
		found = append(found, err.Error())
	}
	return found
}
