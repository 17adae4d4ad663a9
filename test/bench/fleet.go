// Package bench measures the service in its real form: processes on real databases, with fleets of any size. Its
// benchmarks report the figures of docs/performance.md; benchmarks of one package are next to its code.
//
// fleet.go generates fleets and is also used by the fault harness; process_test.go runs the servers; every other file is
// one benchmark.
package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Fleet is the shape of a generated fleet: the contents of each cluster.
type Fleet struct {
	Clusters     int
	Components   int // of the catalog; each cluster has all of them
	Namespaces   int
	RoleBindings int
	Patches      int  // patched values of each cluster, different on each
	Alike        bool // they are not: what one cluster says, each says
	Layers       int  // that say all this for all clusters, which say nothing then; 0: each cluster says it
}

// Realistic returns a fleet with the proportions of a large platform and the given number of clusters.
func Realistic(clusters int) Fleet {
	return Fleet{Clusters: clusters, Components: 30, Namespaces: 10, RoleBindings: 5, Patches: 20}
}

// ClusterID returns the id of cluster n.
func ClusterID(n int) string { return fmt.Sprintf("cluster-%05d", n) }

// ClusterDNS returns the name by which cluster n polls.
func ClusterDNS(n int) string { return ClusterID(n) + ".k8s.example.com" }

// LayerID returns the id of layer n.
func LayerID(n int) string { return fmt.Sprintf("layer-%02d", n) }

// ComponentID returns the id of component n of the catalog.
func ComponentID(n int) string { return fmt.Sprintf("component-%02d", n) }

type object = map[string]any

// WriteSeed writes the fleet as a seed file. The output depends on the fleet only.
func (f Fleet) WriteSeed(w io.Writer) error {
	environments := []string{"dev", "qa", "uat", "prod"}
	var components, namespaces, bindings []object
	for i := range f.Components {
		id, depends := ComponentID(i), []string{}
		if i%3 == 1 {
			depends = append(depends, ComponentID(i-1))
		}
		components = append(components, object{
			"id": id, "component_path": "platform/" + id, "component_version": fmt.Sprintf("%d.%d.%d", i%4, i, i*7%10),
			"oci_url": "https://charts.example.com", "oci_tag": fmt.Sprintf("v%d.%d.%d", i%4, i, i*7%10),
			"cluster_env_enabled": i%5 == 0, "depends_on": depends,
		})
	}
	for i := range f.Namespaces {
		namespaces = append(namespaces, object{
			"id":          fmt.Sprintf("team-%02d", i),
			"labels":      object{"team": fmt.Sprintf("team-%02d", i), "pod-security.kubernetes.io/enforce": "restricted"},
			"annotations": object{"owner": fmt.Sprintf("team-%02d@example.com", i), "cost-center": fmt.Sprint(4000 + i)},
		})
	}
	for i := range f.RoleBindings {
		bindings = append(bindings, object{
			"id": fmt.Sprintf("binding-%02d", i), "role": []string{"view", "edit", "admin"}[i%3],
			"subjects": []object{{"kind": "Group", "name": fmt.Sprintf("oidc:team-%02d", i), "apiGroup": "rbac.authorization.k8s.io"}},
		})
	}
	assigned := func(part, of int) object {
		return object{
			"platform_components": refs(components, part, of), "namespaces": refs(namespaces, part, of), "rolebindings": refs(bindings, part, of),
		}
	}
	layers, all := f.layers(assigned), assigned(0, 1)
	if _, err := io.WriteString(w, `{"clusters":[`); err != nil {
		return err
	}
	for i := range f.Clusters {
		cluster := object{
			"id": ClusterID(i), "cluster_name": ClusterID(i), "cluster_dns": ClusterDNS(i), "environment": environments[i%len(environments)],
		}
		if f.Layers == 0 {
			cluster["patches"] = f.patches(i)
			maps.Copy(cluster, all)
		}
		body, err := json.Marshal(cluster)
		if err != nil {
			return err
		}
		if i > 0 {
			body = slices.Concat([]byte(",\n"), body)
		}
		if _, err := w.Write(body); err != nil {
			return err
		}
	}
	rest, err := json.Marshal(object{"platform_components": components, "namespaces": namespaces, "rolebindings": bindings, "layers": layers})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "],%s", rest[1:])
	return err
}

// refs returns the entries of a list: one part out of several of the definitions.
func refs(all []object, part, of int) []object {
	out := []object{}
	for _, o := range all[len(all)*part/of : len(all)*(part+1)/of] {
		out = append(out, object{"id": o["id"]})
	}
	return out
}

// layers returns the layers of the fleet, each with its part of the assignments and of the values.
func (f Fleet) layers(assigned func(part, of int) object) []object {
	out, patches := []object{}, f.patches(0)
	components := slices.Sorted(maps.Keys(patches))
	for i := range f.Layers {
		layer := object{"id": LayerID(i), "priority": 100 + i, "selector": "environment in (dev,qa,uat,prod)"}
		maps.Copy(layer, assigned(i, f.Layers))
		says := object{}
		for _, id := range components[len(components)*i/f.Layers : len(components)*(i+1)/f.Layers] {
			says[id] = patches[id]
		}
		layer["patches"] = says
		out = append(out, layer)
	}
	return out
}

// patches returns the values of one cluster, spread over its first components.
func (f Fleet) patches(cluster int) object {
	if f.Alike {
		cluster = 0
	}
	const each = 4 // values of one component
	paths := [each]string{"replicaCount", "ingress.hosts[0].host", "resources.limits.memory", "config.region"}
	out := object{}
	for i := range f.Patches {
		id := ComponentID(i / each % max(1, f.Components))
		if out[id] == nil {
			out[id] = object{}
		}
		value := map[int]string{
			0: fmt.Sprint(1 + (cluster+i)%9), 1: fmt.Sprintf("app-%d.%s", i, ClusterDNS(cluster)),
			2: fmt.Sprintf("%dMi", 128*(1+(cluster+i)%8)), 3: fmt.Sprintf("eu-central-%d", cluster%3),
		}[i%each]
		out[id].(object)[paths[i%each]] = value
	}
	return out
}
