package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// adoption makes documents of ours of what a database of the Rust reference holds. The zero value changes nothing that
// could be meant otherwise; what was lived in mostly needs more, and says so.
type adoption struct {
	types        map[string]string // of components by id, where the default is not meant
	renames      map[string]string // of clusters
	dropDangling bool              // leave out references to what is gone, as the reference does when it is polled

	docs     map[fleet.Kind][]adopted
	known    map[fleet.Kind]map[string]bool
	notes    []string
	problems []fleet.Problem
	hints    []string
}

// adopted is one document on its way.
type adopted struct {
	id  string
	obj map[string]any
}

// referenceNames are what reports call the kinds, as the command line does.
var referenceNames = map[fleet.Kind]string{
	fleet.KindComponent: "component", fleet.KindNamespace: "namespace", fleet.KindRoleBinding: "rolebinding", fleet.KindCluster: "cluster",
}

// referenceLists are a cluster's lists of references.
var referenceLists = map[string]fleet.Kind{
	"platform_components": fleet.KindComponent, "namespaces": fleet.KindNamespace, "rolebindings": fleet.KindRoleBinding,
}

// readReference reads a database file that the Rust reference wrote; nil when it is not one. The adoption's notes then say
// what became something else, and its hints what could be done about problems that only show later.
func readReference(ctx context.Context, path string, a *adoption) (fleet.Seed, error) {
	ref, err := sqlite.ReadReference(ctx, path)
	if err != nil || ref == nil {
		return nil, err
	}
	a.docs, a.known = map[fleet.Kind][]adopted{}, map[fleet.Kind]map[string]bool{}
	a.parse(fleet.KindComponent, ref.Components)
	a.parse(fleet.KindNamespace, ref.Namespaces)
	a.parse(fleet.KindRoleBinding, ref.RoleBindings)
	a.parse(fleet.KindCluster, ref.Clusters)
	a.defineInline()
	a.dangling()
	a.retype()
	a.rename()
	seed := fleet.Seed{} // not nil: also a database of the reference without rows is never seeded over
	for _, kind := range []fleet.Kind{fleet.KindComponent, fleet.KindNamespace, fleet.KindRoleBinding, fleet.KindCluster} {
		for _, d := range a.docs[kind] {
			doc, err := fleet.NewSeedDocument(kind, at(kind, d.id), d.obj)
			if err != nil {
				a.problem(kind, d.id, "%v", err)
				continue
			}
			seed = append(seed, doc)
		}
	}
	if len(a.problems) > 0 {
		return nil, fmt.Errorf("%s cannot be imported: %w", path, explain(fleet.Invalid(a.problems)))
	}
	return seed, nil
}

// at is the place of a document in reports.
func at(kind fleet.Kind, id string) string { return referenceNames[kind] + "/" + id + " " }

func (a *adoption) problem(kind fleet.Kind, id, format string, args ...any) {
	a.problems = append(a.problems, fleet.Problem{Pointer: strings.TrimSpace(at(kind, id)), Detail: fmt.Sprintf(format, args...)})
}

func (a *adoption) note(kind fleet.Kind, id, format string, args ...any) {
	a.notes = append(a.notes, at(kind, id)+fmt.Sprintf(format, args...))
}

func (a *adoption) parse(kind fleet.Kind, rows []json.RawMessage) {
	a.known[kind] = map[string]bool{}
	for i, row := range rows {
		item, err := fleet.ParseJSON(row)
		obj, ok := item.(map[string]any)
		if err == nil && !ok {
			err = fmt.Errorf("must be an object")
		}
		id, _ := cmp.Or(obj["_id"], obj["id"]).(string)
		if err != nil {
			a.problem(kind, cmp.Or(id, fmt.Sprintf("(row %d by id)", i+1)), "%v", err)
			continue
		}
		a.docs[kind] = append(a.docs[kind], adopted{id, obj})
		a.known[kind][id] = true
	}
}

// defineInline makes definitions of the namespaces that clusters hold themselves, as they did before the reference had
// definitions of namespaces.
func (a *adoption) defineInline() {
	from := map[string]string{}
	content := map[string][2]any{}
	for _, c := range a.docs[fleet.KindCluster] {
		list, _ := c.obj["namespaces"].([]any)
		for i, item := range list {
			entry, _ := item.(map[string]any)
			id, _ := entry["id"].(string)
			if len(entry) < 2 || id == "" {
				continue
			}
			list[i] = map[string]any{"id": id}
			is := [2]any{orEmpty(entry["labels"]), orEmpty(entry["annotations"])}
			first, defined := from[id]
			switch {
			case !defined && a.known[fleet.KindNamespace][id]:
				a.note(fleet.KindCluster, c.id, "namespaces: %q is also defined by itself, and that counts", id)
			case !defined:
				from[id], content[id] = c.id, is
				a.known[fleet.KindNamespace][id] = true
				a.docs[fleet.KindNamespace] = append(a.docs[fleet.KindNamespace], adopted{id, map[string]any{"id": id, "labels": is[0], "annotations": is[1]}})
				a.note(fleet.KindNamespace, id, "is defined as cluster %q has it", c.id)
			case !reflect.DeepEqual(content[id], is):
				a.problem(fleet.KindNamespace, id, "has other labels or annotations on cluster %q than on %q, and can have only one definition: make them the same, or give one of them another name", c.id, first)
			}
		}
	}
}

func orEmpty(v any) any {
	if v == nil {
		return map[string]any{}
	}
	return v
}

// dangling finds references to what is not there, and patches of components that are not assigned. The reference skips
// them when it is polled, so that whoever deleted a definition noticed nothing.
func (a *adoption) dangling() {
	found := 0
	gone := func(kind fleet.Kind, id, where, what string) bool {
		found++
		if a.dropDangling {
			a.note(kind, id, "%s: %q is left out: it leads nowhere", where, what)
		}
		return a.dropDangling
	}
	for _, c := range a.docs[fleet.KindComponent] {
		dependencies, _ := c.obj["depends_on"].([]any)
		c.obj["depends_on"] = slices.DeleteFunc(dependencies, func(item any) bool {
			id, ok := item.(string)
			return ok && !a.known[fleet.KindComponent][id] && gone(fleet.KindComponent, c.id, "depends_on", id)
		})
	}
	for _, c := range a.docs[fleet.KindCluster] {
		on := map[string]bool{}
		for _, field := range slices.Sorted(maps.Keys(referenceLists)) {
			kind := referenceLists[field]
			list, _ := c.obj[field].([]any)
			c.obj[field] = slices.DeleteFunc(list, func(item any) bool {
				entry, _ := item.(map[string]any)
				id, ok := entry["id"].(string)
				on[id] = on[id] || kind == fleet.KindComponent && a.known[kind][id]
				return ok && !a.known[kind][id] && gone(fleet.KindCluster, c.id, field, id)
			})
		}
		patches, _ := c.obj["patches"].(map[string]any)
		for _, id := range slices.Sorted(maps.Keys(patches)) {
			if values, _ := patches[id].(map[string]any); len(values) > 0 && !on[id] && gone(fleet.KindCluster, c.id, "patches", id) {
				delete(patches, id)
			}
		}
	}
	if found > 0 && !a.dropDangling {
		a.hints = append(a.hints, fmt.Sprintf("--drop-dangling leaves out what leads nowhere, %d in all, as the reference does when it is polled", found))
	}
}

// retype sets the types that were asked for, and finds the components for which somebody should: the reference makes a
// Helm release of every component, of an oci:// URL too, and substitutions of kustomize cannot have the names of Helm's values.
func (a *adoption) retype() {
	dotted := map[string]bool{}
	for _, c := range a.docs[fleet.KindCluster] {
		patches, _ := c.obj["patches"].(map[string]any)
		for id, p := range patches {
			values, _ := p.(map[string]any)
			for path := range values {
				dotted[id] = dotted[id] || strings.ContainsAny(path, ".[-")
			}
		}
	}
	var unfit []string
	for _, c := range a.docs[fleet.KindComponent] {
		url, _ := c.obj["oci_url"].(string)
		if kind, ok := a.types[c.id]; ok {
			c.obj["type"] = kind
			a.note(fleet.KindComponent, c.id, "is of type %s", kind)
		} else if dotted[c.id] && c.obj["type"] == nil && strings.HasPrefix(url, "oci://") {
			unfit = append(unfit, "--type "+c.id+"=helm")
		}
	}
	if len(unfit) > 0 {
		a.hints = append(a.hints, strings.Join(unfit, " ")+" makes Helm charts of components whose patches are paths of Helm values")
	}
	for _, id := range slices.Sorted(maps.Keys(a.types)) {
		if !a.known[fleet.KindComponent][id] {
			a.problem(fleet.KindComponent, id, "--type names it, and there is no such component")
		}
	}
}

func (a *adoption) rename() {
	for i, c := range a.docs[fleet.KindCluster] {
		if name, ok := a.renames[c.id]; ok {
			a.note(fleet.KindCluster, name, "was %q", c.id)
			delete(c.obj, "_id")
			c.obj["id"] = name
			a.docs[fleet.KindCluster][i].id = name
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.renames)) {
		if !a.known[fleet.KindCluster][id] {
			a.problem(fleet.KindCluster, id, "--rename-cluster names it, and there is no such cluster")
		}
	}
}
