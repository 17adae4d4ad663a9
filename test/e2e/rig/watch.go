package rig

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// Narrate writes a line whenever something that Flux looks after appears, changes in a way that people care about, or
// goes, until ctx ends.
func (w *Env) Narrate(ctx context.Context, out io.Writer) {
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, format+"\n", args...)
	}
	ready := func(o *unstructured.Unstructured) string {
		switch status, message := Condition(o, "Ready"); status {
		case "True":
			// How long it took is another text every time.
			message, _, _ = strings.Cut(message, " in ")
			return "ready: " + message
		case "False":
			return "not ready: " + message
		}
		return "" // on its way
	}
	kinds := []struct {
		apiVersion, kind string
		tell             func(*unstructured.Unstructured) string
	}{
		{"v1", "Namespace", func(*unstructured.Unstructured) string { return "is there" }},
		{"rbac.authorization.k8s.io/v1", "ClusterRoleBinding", func(o *unstructured.Unstructured) string {
			role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			return "binds " + role
		}},
		{"fluxcd.controlplane.io/v1", "ResourceSetInputProvider", ready},
		{"fluxcd.controlplane.io/v1", "ResourceSet", ready},
		{"helm.toolkit.fluxcd.io/v2", "HelmRelease", ready},
		{"kustomize.toolkit.fluxcd.io/v1", "Kustomization", ready},
		{"apps/v1", "Deployment", func(o *unstructured.Unstructured) string {
			wanted, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
			running, _, _ := unstructured.NestedInt64(o.Object, "status", "readyReplicas")
			return fmt.Sprintf("%d of %d replicas", running, wanted)
		}},
	}
	for _, kind := range kinds {
		go func() {
			last := map[string]string{}
			for ctx.Err() == nil {
				list := &unstructured.UnstructuredList{}
				list.SetAPIVersion(kind.apiVersion)
				list.SetKind(kind.kind + "List")
				watcher, err := w.Kube.Watch(ctx, list)
				if err != nil {
					return
				}
				for event := range watcher.ResultChan() {
					o, ok := event.Object.(*unstructured.Unstructured)
					if !ok || !fromFlux(o) {
						continue
					}
					name := o.GetName()
					if o.GetNamespace() != "" {
						name = o.GetNamespace() + "/" + name
					}
					text := kind.tell(o)
					switch {
					case event.Type == watch.Deleted:
						text = "is gone"
					case o.GetDeletionTimestamp() != nil:
						// Its status now describes its deletion.
						text = "is being removed"
					}
					if text != "" && last[name] != text {
						say("%-24s %-36s %s", kind.kind, name, text)
						last[name] = text
					}
				}
			}
		}()
	}
}

// fromFlux reports whether Flux manages an object, in contrast to objects that Kubernetes creates.
func fromFlux(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Namespace", "ClusterRoleBinding":
		return o.GetLabels()["resourceset.fluxcd.controlplane.io/name"] != ""
	}
	return true
}
