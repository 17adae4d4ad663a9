package fleet

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// rfcStep is a write of one manager to the values of podinfo on the demo cluster.
type rfcStep struct {
	verb    string // patch, apply, destroy: the patch resource's life cycle; document: a write of the whole cluster; catalog
	manager string
	values  string
	force   bool
	retain  bool
	refused Code
}

// rfcCase is one scenario of the RFC "Kubernetes Patch Support", named after its heading or sentence there. Its resources
// are values of a component here, and its stacks are field managers.
type rfcCase struct {
	name     string
	steps    []rfcStep
	values   map[string]string
	managers map[string][]string
	served   map[string]any // part of the input that Flux then receives
}

var rfcCases = []rfcCase{
	{
		name: "Change metadata of an existing Namespace (labels or annotations)",
		steps: []rfcStep{
			{verb: "patch", manager: "provisioner", values: `{"commonLabels.provider":"x","commonAnnotations.owner":"provider"}`},
			{verb: "patch", manager: "kube-public-patch", values: `{"commonAnnotations.team":"acmecorp","commonLabels.foo":"bar"}`},
		},
		values: map[string]string{"commonLabels.provider": `"x"`, "commonAnnotations.owner": `"provider"`, "commonAnnotations.team": `"acmecorp"`, "commonLabels.foo": `"bar"`},
		managers: map[string][]string{
			"provisioner": {"commonAnnotations.owner", "commonLabels.provider"}, "kube-public-patch": {"commonAnnotations.team", "commonLabels.foo"},
		},
		served: map[string]any{"commonAnnotations": map[string]any{"owner": "provider", "team": "acmecorp"}, "commonLabels": map[string]any{"foo": "bar", "provider": "x"}},
	},
	{
		name: "Update data in a shared ConfigMap",
		steps: []rfcStep{
			{verb: "patch", manager: "app", values: `{"config.log":"info"}`},
			{verb: "patch", manager: "cm-patch", values: `{"config.foo":"bar"}`},
			{verb: "patch", manager: "cm-patch", values: `{"config.foo":"baz"}`},
		},
		values:   map[string]string{"config.log": `"info"`, "config.foo": `"baz"`},
		managers: map[string][]string{"app": {"config.log"}, "cm-patch": {"config.foo"}},
		served:   map[string]any{"config": map[string]any{"foo": "baz", "log": "info"}},
	},
	{
		name: "Change configuration of a CustomResource provisioned by an external controller",
		steps: []rfcStep{
			{verb: "apply", manager: "controller", values: `{"authentication.oidc.issuerURI":"https://id.example.com","authentication.name":"oidc"}`},
			{verb: "patch", manager: "oidc", values: `{"authentication.oidc.clientID":"example"}`},
			{verb: "apply", manager: "controller", values: `{"authentication.oidc.issuerURI":"https://id2.example.com"}`}, // reconciles, and keeps the other manager's value
		},
		values:   map[string]string{"authentication.oidc.issuerURI": `"https://id2.example.com"`, "authentication.oidc.clientID": `"example"`},
		managers: map[string][]string{"controller": {"authentication.oidc.issuerURI"}, "oidc": {"authentication.oidc.clientID"}},
	},
	{
		name: "Change the number of Pod replicas in a shared Deployment: patchForce",
		steps: []rfcStep{
			{verb: "patch", manager: "autoscaler", values: `{"replicaCount":"1","image.tag":"1"}`},
			{verb: "patch", manager: "nginx-replicas", values: `{"replicaCount":"3"}`, refused: CodeFieldConflict},
			{verb: "patch", manager: "nginx-replicas", values: `{"replicaCount":"3"}`, force: true},
			{verb: "patch", manager: "autoscaler", values: `{"replicaCount":"1"}`, refused: CodeFieldConflict}, // it gets a conflict
		},
		values:   map[string]string{"replicaCount": `"3"`, "image.tag": `"1"`},
		managers: map[string][]string{"autoscaler": {"image.tag"}, "nginx-replicas": {"replicaCount"}},
		served:   map[string]any{"replicaCount": 3.0},
	},
	{
		name: "Ensure that a ConfigMap exists with a specified configuration: upsert creates",
		steps: []rfcStep{
			{verb: "apply", manager: "upsert-app-config", values: `{"config.foo":"bar"}`, force: true},
		},
		values:   map[string]string{"config.foo": `"bar"`},
		managers: map[string][]string{"upsert-app-config": {"config.foo"}},
	},
	{
		name: "Ensure that a ConfigMap exists with a specified configuration: upsert updates what others set",
		steps: []rfcStep{
			{verb: "patch", manager: "somebody", values: `{"config.foo":"other","config.theirs":"1"}`},
			{verb: "apply", manager: "upsert-app-config", values: `{"config.foo":"bar"}`, refused: CodeFieldConflict},
			{verb: "apply", manager: "upsert-app-config", values: `{"config.foo":"bar"}`, force: true},
			{verb: "apply", manager: "upsert-app-config", values: `{"config.foo":"bar"}`, force: true}, // again: nothing more
		},
		values:   map[string]string{"config.foo": `"bar"`, "config.theirs": `"1"`},
		managers: map[string][]string{"somebody": {"config.theirs"}, "upsert-app-config": {"config.foo"}},
	},
	{
		name: "Ensure that a StorageClass exists with a specified configuration",
		steps: []rfcStep{
			{verb: "apply", manager: "gp2-storage-class", values: `{"annotations.storageclass\\.kubernetes\\.io/is-default-class":"true","parameters":{"type":"gp2","fsType":"ext4"}}`, force: true},
		},
		values:   map[string]string{`annotations.storageclass\.kubernetes\.io/is-default-class`: `"true"`, "parameters": `{"fsType":"ext4","type":"gp2"}`},
		managers: map[string][]string{"gp2-storage-class": {`annotations.storageclass\.kubernetes\.io/is-default-class`, "parameters"}},
		served: map[string]any{
			"annotations": map[string]any{"storageclass.kubernetes.io/is-default-class": true}, "parameters": map[string]any{"fsType": "ext4", "type": "gp2"},
		},
	},
	{
		name: "multiple controllers manage the same resource without accidentally overwriting the same fields",
		steps: []rfcStep{
			{verb: "apply", manager: "a", values: `{"x":"1","shared":"1"}`},
			{verb: "apply", manager: "b", values: `{"y":"1","shared":"1"}`},
			{verb: "apply", manager: "a", values: `{"x":"2","shared":"2"}`, refused: CodeFieldConflict},
			{verb: "apply", manager: "b", values: `{"x":"3","y":"1","shared":"1"}`, refused: CodeFieldConflict},
		},
		values:   map[string]string{"x": `"1"`, "y": `"1"`, "shared": `"1"`},
		managers: map[string][]string{"a": {"shared", "x"}, "b": {"shared", "y"}},
	},
	{
		name: "other controllers inadvertently revert changes (client-side apply): a stale copy is refused",
		steps: []rfcStep{
			{verb: "patch", manager: "ci", values: `{"image.tag":"2"}`},
			{verb: "document", values: `{"patches":{"podinfo":{"image.tag":"1"}}}`, refused: CodeFieldConflict},
			{verb: "document", values: `{"patches":{"podinfo":null}}`, refused: CodeFieldConflict},
			{verb: "document", values: `{"labels":{"a":"b"}}`}, // it does not contain the values of ci
		},
		values: map[string]string{"image.tag": `"2"`}, managers: map[string][]string{"ci": {"image.tag"}},
	},
	{
		name: "patchForce on existing resource classes: the definition overrides in case of conflict",
		steps: []rfcStep{
			{verb: "patch", manager: "ci", values: `{"image.tag":"2","x":"1"}`},
			{verb: "document", values: `{"patches":{"podinfo":{"image.tag":"1"}}}`, force: true},
		},
		values: map[string]string{"image.tag": `"1"`, "x": `"1"`}, managers: map[string][]string{"": {"image.tag"}, "ci": {"x"}},
	},
	{
		name: "every argument of a patch is optional: nothing given, nothing changed",
		steps: []rfcStep{
			{verb: "patch", manager: "a", values: `{"x":"1"}`},
			{verb: "patch", manager: "b", values: `{}`},
		},
		values: map[string]string{"x": `"1"`}, managers: map[string][]string{"a": {"x"}},
	},
	{
		name: "When a Patch resource is destroyed, it relinquishes ownership; an unmanaged field resets to its default",
		steps: []rfcStep{
			{verb: "catalog", values: `{"patches":{"replicaCount":"7"}}`},
			{verb: "patch", manager: "nginx-replicas", values: `{"replicaCount":"3","x":"1"}`},
			{verb: "patch", manager: "other", values: `{"x":"1"}`},
			{verb: "destroy", manager: "nginx-replicas"},
		},
		values: map[string]string{"x": `"1"`}, managers: map[string][]string{"other": {"x"}},
		served: map[string]any{"replicaCount": 7.0},
	},
	{
		name: "transfer ownership by setting the manager and running an update",
		steps: []rfcStep{
			{verb: "apply", manager: "stack-1", values: `{"x":"1"}`},
			{verb: "apply", manager: "stack-2", values: `{"x":"1"}`},
			{verb: "destroy", manager: "stack-1"},
			{verb: "apply", manager: "stack-2", values: `{"x":"2"}`},
		},
		values: map[string]string{"x": `"2"`}, managers: map[string][]string{"stack-2": {"x"}},
	},
	{
		name: "changes persist across destroy with retainOnDelete",
		steps: []rfcStep{
			{verb: "patch", manager: "stack-1", values: `{"x":"1","shared":"1"}`},
			{verb: "patch", manager: "stack-2", values: `{"shared":"1"}`},
			{verb: "destroy", manager: "stack-1", retain: true},
		},
		values: map[string]string{"x": `"1"`, "shared": `"1"`}, managers: map[string][]string{"": {"x"}, "stack-2": {"shared"}},
	},
	{
		name: "what a stack retained can be taken over by another one",
		steps: []rfcStep{
			{verb: "patch", manager: "stack-1", values: `{"x":"1"}`},
			{verb: "destroy", manager: "stack-1", retain: true},
			{verb: "apply", manager: "stack-2", values: `{"x":"2"}`},
		},
		values: map[string]string{"x": `"2"`}, managers: map[string][]string{"stack-2": {"x"}},
	},
	{
		name: "the manager is set automatically if not provided: nobody's values are nobody's to defend",
		steps: []rfcStep{
			{verb: "patch", values: `{"x":"1"}`},
			{verb: "patch", manager: "a", values: `{"x":"2"}`},
			{verb: "patch", values: `{"x":"1"}`, refused: CodeFieldConflict},
			{verb: "apply", values: `{"y":"1"}`},
		},
		values: map[string]string{"x": `"2"`, "y": `"1"`}, managers: map[string][]string{"a": {"x"}, "": {"y"}},
	},
	{
		name:   "a patch needs the resource it patches",
		steps:  []rfcStep{{verb: "document", values: `{"platform_components":[]}`}, {verb: "patch", manager: "a", values: `{"x":"1"}`, refused: CodeNotFound}},
		values: map[string]string{}, managers: map[string][]string{},
	},
}

// edit returns the step as a request of its own.
func (s rfcStep) edit(o on) func(*Tx) error {
	switch s.verb {
	case "patch":
		return o.set(s.manager, s.values, s.force)
	case "apply":
		return o.apply(s.manager, s.values, s.force)
	case "destroy":
		return o.relinquish(s.manager, s.retain)
	case "catalog":
		return patch(KindComponent, "podinfo", s.values)
	}
	return both(func(tx *Tx) error { tx.Force(s.force); return nil }, patch(KindCluster, "demo-cluster-01", s.values))
}

// operation returns the step as an operation of a batch.
func (s rfcStep) operation(t *testing.T) func(*Tx) error {
	op := api.Operation{Op: "patch", Kind: "cluster", ID: "demo-cluster-01", Patch: json.RawMessage(s.values), Force: s.force}
	switch s.verb {
	case "catalog":
		op.Kind, op.ID = "platform_component", "podinfo"
	case "patch", "apply", "destroy":
		op = api.Operation{
			Op:         map[string]string{"patch": "patch_values", "apply": "apply_values", "destroy": "relinquish_values"}[s.verb],
			ClusterIds: []string{"demo-cluster-01"}, ComponentID: "podinfo", FieldManager: s.manager, Force: s.force, Retain: s.retain,
		}
		if s.verb != "destroy" {
			op.Values = json.RawMessage(s.values)
		}
	}
	body, err := json.Marshal(op)
	require.NoError(t, err)
	return batch(string(body))
}

// TestPatchRFC runs the scenarios of the RFC through single requests and through batches, with the same result.
func TestPatchRFC(t *testing.T) {
	t.Parallel()
	for _, test := range rfcCases {
		for way, edit := range map[string]func(rfcStep, on) func(*Tx) error{
			"requests": func(s rfcStep, o on) func(*Tx) error { return s.edit(o) },
			"batches":  func(s rfcStep, o on) func(*Tx) error { return s.operation(o.w.t) },
		} {
			t.Run(test.name+"/"+way, func(t *testing.T) {
				t.Parallel()
				o := on{demo(t)}
				o.w.must(patch(KindCluster, "demo-cluster-01", `{"patches":{"podinfo":null}}`))
				for i, s := range test.steps {
					if s.refused != "" {
						if s.refused == CodeNotFound && way == "batches" {
							s.refused = CodeInvalid // a batch names the cluster in the body, not in the path
						}
						o.w.refused(s.refused, edit(s, o))
						continue
					}
					o.w.must(named(fmt.Sprintf("step %d", i+1), edit(s, o)))
				}
				require.Equal(t, test.values, o.values())
				require.Equal(t, test.managers, o.managers())
				for _, in := range inputsOf(t, o.w.state, demoDNS, KindComponent) {
					for field, want := range test.served {
						if in["id"] == "podinfo" {
							require.Equal(t, want, in["values"].(map[string]any)[field])
						}
					}
				}
			})
		}
	}
}

// named adds the name of the edit to an error.
func named(name string, edit func(*Tx) error) func(*Tx) error {
	return func(tx *Tx) error {
		if err := edit(tx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
}
