package fluximport

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
)

// definitions collects the namespaces and role bindings of a cluster.
func (b *builder) definitions(m *translator) {
	known := map[string]bool{}
	for _, o := range m.cluster.Objects {
		if !m.takesOver(o) {
			continue
		}
		e := entry{on: m, object: o, id: o.Name}
		var kind, problem string
		switch {
		case o.Group == "" && o.Kind == "Namespace":
			kind = "namespace"
			e.fields = map[string]any{"deletion_policy": "orphan"}
			for at := range leaves(o.At("spec")) {
				m.field(o, cmp.Or(at, "spec"), template, "")
			}
			if strings.HasPrefix(o.Name, "kube-") || o.Name == "default" || o.Name == fluxNamespace {
				m.report.keep(m.cluster.Name, o.Ref, "it belongs to Kubernetes or Flux")
				continue
			}
		case o.Group == rbacGroup && strings.HasSuffix(o.Kind, "RoleBinding"):
			kind = "rolebinding"
			e.fields, problem = binding(o)
		default:
			continue
		}
		if known[kind+o.Name] {
			problem = "another role binding of the cluster has this name, which is its id in the fleet"
		}
		if problem == "" {
			problem = m.metadata(o, e.fields)
		}
		what := taken
		if problem != "" {
			what = left
			m.report.keep(m.cluster.Name, o.Ref, problem)
		} else {
			known[kind+o.Name] = true
			b.entries[kind] = append(b.entries[kind], e)
		}
		if kind == "rolebinding" {
			m.field(o, "roleRef", what, "%s", problem)
			m.field(o, "subjects", what, "%s", problem)
		}
	}
}

// takesOver reports whether the fleet has to apply an object: a replaced Kustomization applies it, or it comes from kustomize build.
func (t *translator) takesOver(o fluxdump.Object) bool {
	of, owned := o.Owner()
	_, inDump := t.cluster.Find(of)
	return t.done[of] == nil && (owned && (!inDump || t.replaced[of]) || !owned && isUnbuilt(o))
}

// binding returns the fields of a role binding, or the reason why the fleet cannot have it.
func binding(o fluxdump.Object) (fields map[string]any, problem string) {
	fields = map[string]any{"role": o.Text("roleRef", "name"), "subjects": []any{}}
	if o.Namespace != "" {
		fields["namespace"] = o.Namespace
	}
	subjects, _ := o.Fields["subjects"].([]any)
	for _, s := range subjects {
		subject, _ := s.(map[string]any)
		subject = maps.Clone(subject)
		if subject["kind"] == "ServiceAccount" {
			delete(subject, "apiGroup")
			if subject["namespace"] == nil && o.Namespace != "" {
				subject["namespace"] = o.Namespace
			}
		}
		fields["subjects"] = append(fields["subjects"].([]any), subject)
	}
	switch {
	case o.Text("roleRef", "kind") != "ClusterRole":
		return nil, "it refers to a Role: use a ClusterRole, or a resource type"
	case strings.HasPrefix(o.Name, "system:"), o.Name == "cluster-admin", strings.HasPrefix(o.Name, "flux-operator"), strings.HasPrefix(o.Name, "cluster-reconciler"), strings.HasPrefix(o.Name, "crd-controller"), strings.HasPrefix(o.Name, "kubeadm:"):
		return nil, "the name belongs to Kubernetes or Flux"
	case strings.Contains(o.Name, "__"):
		return nil, "Flux's inventory reads two underscores in its name as a colon: rename it, or use a resource type"
	}
	return fields, ""
}

// metadata adds the labels and annotations of an object, without those that Flux, Kubernetes and kubectl set by themselves.
func (t *translator) metadata(o fluxdump.Object, fields map[string]any) (problem string) {
	for _, name := range []string{"labels", "annotations"} {
		all, _ := o.At("metadata", name).(map[string]any)
		kept := map[string]any{}
		for key, value := range all {
			text, reason := t.text(o, fmt.Sprint(value), false)
			if reason != "" {
				return fmt.Sprintf("the value of %s: %s", key, reason)
			}
			if !isAutomatic(key) {
				kept[key] = text
			}
		}
		if len(kept) > 0 {
			fields[name] = kept
		}
	}
	return ""
}

// isAutomatic reports whether a label or annotation is set by Kubernetes, or tells Flux who applies the object.
func isAutomatic(key string) bool {
	return slices.Contains([]string{"kubernetes.io/metadata.name", kustomizeGroup + "/name", kustomizeGroup + "/namespace", "event.toolkit.fluxcd.io/input"}, key) || strings.HasPrefix(key, "fluxcd.controlplane.io/") ||
		strings.HasPrefix(key, "kubectl.kubernetes.io/") || strings.HasPrefix(key, "resourceset.fluxcd.controlplane.io/")
}

// accepted returns the entries of a kind by id, without those that the fleet has refused.
func (b *builder) accepted(kind string) map[string][]entry {
	out := map[string][]entry{}
	for _, e := range b.entries[kind] {
		if reason := cmp.Or(b.refused[kind], b.refused[kind+"/"+e.id], b.refused[kind+"/"+e.id+"/"+e.on.cluster.Name]); reason != "" {
			b.report.reject(e.on.cluster.Name, e.object.Ref, "", "the object is not taken: "+reason)
			b.report.keep(e.on.cluster.Name, e.object.Ref, reason)
			continue
		}
		out[e.id] = append(out[e.id], e)
	}
	return out
}

// define adds the most frequent form of each definition. Clusters with another form do not get it.
func (b *builder) define(kind string) error {
	accepted := b.accepted(kind)
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		var forms []map[string]any
		for _, e := range accepted[id] {
			forms = append(forms, e.fields)
		}
		best, _ := mostFrequent(forms)
		doc := maps.Clone(best)
		doc["id"] = id
		for _, e := range accepted[id] {
			if !reflect.DeepEqual(e.fields, best) {
				b.report.keep(e.on.cluster.Name, e.object.Ref, "on some clusters it differs from the one in the fleet, and a definition has one form: make them equal, and assign it")
				continue
			}
			e.on.lists[kind+"s"], e.on.defined = append(e.on.lists[kind+"s"], map[string]any{"id": id}), append(e.on.defined, e.object)
		}
		if err := b.add(kind, doc); err != nil {
			return err
		}
	}
	return nil
}
