package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet"
	"github.com/flux-resourceset/flux-resourceset/server"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// adoption converts the content of a database of the Rust reference into documents of this service.
type adoption struct {
	fixes

	docs     map[fleet.Kind][]*adopted
	byName   map[fleet.Kind]map[string]*adopted // by current and by original id
	known    map[fleet.Kind]map[string]bool     // current ids
	left     []*adopted                         // excluded by --drop
	helm     map[string]bool                    // components that need --type
	notes    []string
	problems []fleet.Problem
	advice   []advice
}

// adopted is one document during the conversion.
type adopted struct {
	kind    fleet.Kind
	id, was string          // current and original
	obj     map[string]any  // nil once it is in the seed, which consumes it
	text    json.RawMessage // set from then on
}

// referenceKinds are the kinds that the reference has, definitions first.
var referenceKinds = []fleet.Kind{fleet.KindComponent, fleet.KindNamespace, fleet.KindRoleBinding, fleet.KindCluster}

// referenceNames are the names of the kinds in reports and flags, the same as in the command line client.
var referenceNames = map[fleet.Kind]string{
	fleet.KindComponent: "component", fleet.KindNamespace: "namespace", fleet.KindRoleBinding: "rolebinding", fleet.KindCluster: "cluster",
}

// referenceLists are a cluster's lists of references.
var referenceLists = map[string]fleet.Kind{
	"platform_components": fleet.KindComponent, "namespaces": fleet.KindNamespace, "rolebindings": fleet.KindRoleBinding,
}

// readReference reads a database file of the Rust reference and applies the fixes; it returns nil if the file is another
// kind of database. Remaining problems are in the adoption, except for those that depend on the rules of the fleet: see
// check.
func readReference(ctx context.Context, path string, a *adoption) (fleet.Seed, error) {
	ref, err := sqlite.ReadReference(ctx, path)
	if err != nil || ref == nil {
		return nil, err
	}
	a.docs, a.known, a.byName = map[fleet.Kind][]*adopted{}, map[fleet.Kind]map[string]bool{}, map[fleet.Kind]map[string]*adopted{}
	for i, rows := range [][]json.RawMessage{ref.Components, ref.Namespaces, ref.RoleBindings, ref.Clusters} {
		a.parse(referenceKinds[i], rows)
	}
	a.defineInline()
	a.apply()
	a.dangling()
	a.adviseTypes()
	seed := fleet.Seed{} // not nil: SEED_FILE never replaces a database of the reference, not even one without rows
	for _, kind := range referenceKinds {
		for _, d := range a.docs[kind] {
			doc, err := fleet.NewSeedDocument(kind, at(kind, d.id), d.obj)
			if err == nil {
				d.text, err = json.Marshal(d.obj)
			}
			if err != nil {
				a.problem(kind, d.id, "%v", err)
				a.adviseDrop(kind, d.id)
				continue
			}
			d.obj = nil
			seed = append(seed, doc)
		}
	}
	return seed, nil
}

// check adds the problems that the documents have in a fleet with these rules. It consumes the documents.
func (a *adoption) check(seed fleet.Seed, rules fleet.Rules) error {
	var invalid *fleet.Error
	if len(a.problems) > 0 {
		return nil
	}
	err := server.CheckSeed(seed, rules)
	if !errors.As(err, &invalid) {
		return err
	}
	a.problems = invalid.Problems
	if len(a.problems) == 0 {
		a.problems = []fleet.Problem{{Detail: invalid.Detail}}
	}
	return a.adviseOn(rules)
}

// at returns the prefix of a document's problems in reports.
func at(kind fleet.Kind, id string) string { return referenceNames[kind] + "/" + id + " " }

func (a *adoption) problem(kind fleet.Kind, id, format string, args ...any) {
	a.problems = append(a.problems, fleet.Problem{Pointer: at(kind, id), Detail: fmt.Sprintf(format, args...)})
}

func (a *adoption) note(kind fleet.Kind, id, format string, args ...any) {
	a.notes = append(a.notes, at(kind, id)+fmt.Sprintf(format, args...))
}

func (a *adoption) parse(kind fleet.Kind, rows []json.RawMessage) {
	a.known[kind], a.byName[kind] = map[string]bool{}, map[string]*adopted{}
	duplicates := 0
	for i, row := range rows {
		item, err := fleet.ParseJSON(row)
		obj, ok := item.(map[string]any)
		if err == nil && !ok {
			err = errors.New("must be an object")
		}
		id, _ := cmp.Or(obj["_id"], obj["id"]).(string)
		id = cmp.Or(id, fmt.Sprintf("(row %d by id)", i+1))
		switch {
		case a.dropped(kind, id):
			a.note(kind, id, "is left out")
			a.left = append(a.left, &adopted{kind: kind, id: id, was: id, obj: obj})
		case err != nil:
			a.problem(kind, id, "%v", err)
			a.adviseDrop(kind, id)
		case a.known[kind][id] && a.dropDuplicates:
			a.note(kind, id, "is left out where it is defined again")
		case a.known[kind][id]:
			duplicates++
			a.problem(kind, id, "is defined twice")
		default:
			a.adopt(kind, id, obj)
		}
	}
	a.adviseDuplicates(duplicates)
}

func (a *adoption) adopt(kind fleet.Kind, id string, obj map[string]any) {
	d := &adopted{kind: kind, id: id, was: id, obj: obj}
	a.docs[kind] = append(a.docs[kind], d)
	a.known[kind][id], a.byName[kind][id] = true, d
}

// defineInline creates definitions for namespaces that clusters contain inline, as they did before the reference had
// definitions of namespaces.
func (a *adoption) defineInline() {
	duplicates := 0
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
			case a.dropped(fleet.KindNamespace, id):
			case !defined && a.known[fleet.KindNamespace][id]:
				a.note(fleet.KindCluster, c.id, "namespaces: %q also has a definition, which takes precedence", id)
			case !defined:
				from[id], content[id] = c.id, is
				a.adopt(fleet.KindNamespace, id, map[string]any{"id": id, "labels": is[0], "annotations": is[1]})
				a.note(fleet.KindNamespace, id, "is defined as cluster %q has it", c.id)
			case reflect.DeepEqual(content[id], is):
			case a.dropDuplicates:
				a.note(fleet.KindCluster, c.id, "namespaces: %q gets the labels and annotations that it has on cluster %q", id, first)
			default:
				duplicates++
				a.problem(fleet.KindNamespace, id, "has other labels or annotations on cluster %q than on %q, and can have only one definition: make them the same, or give one of them another name", c.id, first)
			}
		}
	}
	a.adviseDuplicates(duplicates)
}

func orEmpty(v any) any {
	if v == nil {
		return map[string]any{}
	}
	return v
}

// dangling finds references to documents that do not exist, and patches of components that are not assigned. The
// reference skips them in answers to polls, so they went unnoticed.
func (a *adoption) dangling() {
	found := 0
	gone := func(kind fleet.Kind, id, where, what string) bool {
		found++
		if a.dropDangling {
			a.note(kind, id, "%s: %q is left out: it does not exist", where, what)
		}
		return a.dropDangling
	}
	for _, c := range a.docs[fleet.KindComponent] {
		dependencies, ok := c.obj["depends_on"].([]any)
		if !ok {
			continue // null, or left for validation to refuse
		}
		c.obj["depends_on"] = slices.DeleteFunc(dependencies, func(item any) bool {
			id, ok := item.(string)
			return ok && !a.known[fleet.KindComponent][id] && gone(fleet.KindComponent, c.id, "depends_on", id)
		})
	}
	for _, c := range a.docs[fleet.KindCluster] {
		on := map[string]bool{}
		for _, field := range slices.Sorted(maps.Keys(referenceLists)) {
			kind := referenceLists[field]
			list, ok := c.obj[field].([]any)
			if !ok {
				continue
			}
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
		a.advise(fmt.Sprintf("leaves out %d references to documents that do not exist; the reference does not serve them either", found), "--drop-dangling")
	}
}

// adviseTypes finds components that need --type: the reference makes a Helm release of every component, even of an
// oci:// URL, and names of Helm values are not valid as variables of a Kustomization.
func (a *adoption) adviseTypes() {
	a.helm = map[string]bool{}
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
	for _, c := range a.docs[fleet.KindComponent] {
		url, _ := c.obj["oci_url"].(string)
		if dotted[c.id] && c.obj["type"] == nil && strings.HasPrefix(url, "oci://") {
			a.helm[c.id] = true
			a.advise("makes a Helm chart of a component whose patches are paths of Helm values", "--type", c.id+"=helm")
		}
	}
}
