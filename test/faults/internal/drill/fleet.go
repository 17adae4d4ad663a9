package drill

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/check"
	"github.com/flux-resourceset/flux-resourceset/test/faults/internal/history"
)

// The initial fleet. Components left and right, and namespaces even and odd, always change together in one commit, so an
// answer in which they differ mixes two revisions. Every cluster has all of them.
const clusters = 6

var (
	components   = []string{"left", "right", "app"}
	namespaces   = []string{"even", "odd", "base"}
	rolebindings = []string{"readers"}
	// All writers assign and unassign these.
	sharedNamespaces = []string{"shared-a", "shared-b"}
)

func clusterID(n int) string  { return fmt.Sprintf("c%d", n) }
func clusterDNS(n int) string { return clusterID(n) + ".faults.example.com" }

type object = map[string]any

// seed returns the initial fleet as a seed file.
func seed() ([]byte, error) {
	out := map[string][]object{}
	entries := func(ids []string, more object) []object {
		var list []object
		for _, id := range ids {
			entry := object{"id": id}
			maps.Copy(entry, more)
			list = append(list, entry)
		}
		return list
	}
	for n := range clusters {
		out["clusters"] = append(out["clusters"], object{
			"_id": clusterID(n), "cluster_name": clusterID(n), "cluster_dns": clusterDNS(n), "environment": "dev",
			"platform_components": entries(components, object{"enabled": true}),
			"namespaces":          entries(namespaces, nil),
			"rolebindings":        entries(rolebindings, nil),
			"patches":             object{"app": object{"count": "0"}},
		})
	}
	for _, id := range components {
		out["platform_components"] = append(out["platform_components"], object{
			"_id": id, "component_path": id, "component_version": "1.0.0", "cluster_env_enabled": false,
			"oci_url": "https://charts.example.com/" + id, "oci_tag": "seed", "depends_on": []string{},
		})
	}
	for _, id := range namespaces {
		out["namespaces"] = append(out["namespaces"], object{"id": id, "labels": object{"pair": "seed"}, "annotations": object{}})
	}
	for _, id := range sharedNamespaces {
		out["namespaces"] = append(out["namespaces"], object{"id": id})
	}
	for _, id := range rolebindings {
		out["rolebindings"] = append(out["rolebindings"], object{
			"id": id, "role": "view",
			"subjects": []object{{"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}},
		})
	}
	return json.Marshal(out)
}

// endpoints returns all polled endpoints.
func endpoints() []history.Endpoint {
	var out []history.Endpoint
	for n := range clusters {
		for _, r := range []fleet.Kind{fleet.KindComponent, fleet.KindNamespace, fleet.KindRoleBinding} {
			out = append(out, history.Endpoint{DNS: clusterDNS(n), Resource: r})
		}
	}
	return out
}

// parseAnswer parses an answer as a cluster does. inputs is the number of inputs, -1 if the body is invalid; mixed
// describes a difference between documents that change together.
func parseAnswer(r fleet.Kind, body []byte) (inputs int, mixed string) {
	var answer struct {
		Inputs []struct {
			ID     string
			Labels map[string]string
			Source struct {
				Tag string `json:"oci_tag"`
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Inputs == nil {
		return -1, ""
	}
	pair := map[string]string{}
	for _, in := range answer.Inputs {
		switch in.ID {
		case "left", "right":
			pair[in.ID] = in.Source.Tag
		case "even", "odd", check.FollowedPair[0], check.FollowedPair[1]:
			pair[in.ID] = in.Labels["pair"]
		}
	}
	alike := map[fleet.Kind][][2]string{fleet.KindComponent: {{"left", "right"}}, fleet.KindNamespace: {{"even", "odd"}, check.FollowedPair}}
	for _, of := range alike[r] {
		one, other := pair[of[0]], pair[of[1]]
		assigning := of == check.FollowedPair && (one == "" || other == "") // one after the other
		if one != other && !assigning {
			mixed = fmt.Sprintf("%s has %q, %s has %q", of[0], one, of[1], other)
		}
	}
	return len(answer.Inputs), mixed
}
