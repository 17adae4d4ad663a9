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
	docs     map[fleet.Kind][]*adopted
	known    map[fleet.Kind]map[string]bool // ids
	notes    []string                       // changes that keep every answer of the reference
	problems []fleet.Problem
}

// adopted is one document during the conversion.
type adopted struct {
	id  string
	obj map[string]any // consumed by the seed
}

// referenceKinds are the kinds that the reference has, definitions first.
var referenceKinds = []fleet.Kind{fleet.KindComponent, fleet.KindNamespace, fleet.KindRoleBinding, fleet.KindCluster}

// referenceNames are the names of the kinds in reports and files, the same as in the command line client.
var referenceNames = map[fleet.Kind]string{
	fleet.KindComponent: "component", fleet.KindNamespace: "namespace", fleet.KindRoleBinding: "rolebinding", fleet.KindCluster: "cluster",
}

// referenceLists are a cluster's lists of references.
var referenceLists = map[string]fleet.Kind{
	"platform_components": fleet.KindComponent, "namespaces": fleet.KindNamespace, "rolebindings": fleet.KindRoleBinding,
}

// readReference reads a database file of the Rust reference; it returns nil if the file is another kind of database. Some problems are
// in the adoption; see check for the others.
func readReference(ctx context.Context, path string) (*adoption, error) {
	ref, err := sqlite.ReadReference(ctx, path)
	if err != nil || ref == nil {
		return nil, err
	}
	a := &adoption{docs: map[fleet.Kind][]*adopted{}, known: map[fleet.Kind]map[string]bool{}}
	for i, rows := range [][]json.RawMessage{ref.Components, ref.Namespaces, ref.RoleBindings, ref.Clusters} {
		a.parse(referenceKinds[i], rows)
	}
	a.defineInline()
	a.dangling()
	a.charts()
	return a, nil
}

// check returns the documents for an empty store, and adds the problems that they have in a fleet with these rules.
func (a *adoption) check(rules fleet.Rules) (fleet.Seed, error) {
	seed := fleet.Seed{} // not nil: SEED_FILE never replaces a database of the reference, not even one without rows
	for _, kind := range referenceKinds {
		for _, d := range a.docs[kind] {
			doc, err := fleet.NewSeedDocument(kind, at(kind, d.id), d.obj)
			if err != nil {
				a.problem(kind, d.id, "", "%v", err)
				continue
			}
			seed = append(seed, doc)
		}
	}
	var invalid *fleet.Error
	if len(a.problems) > 0 {
		return nil, nil
	}
	if err := server.CheckSeed(seed, rules); !errors.As(err, &invalid) {
		return seed, err
	}
	a.problems = invalid.Problems
	if len(a.problems) == 0 {
		a.problems = []fleet.Problem{{Detail: invalid.Detail}}
	}
	return nil, nil
}

// err returns the problems as an error; nil if there are none.
func (a *adoption) err(path string) error {
	if len(a.problems) == 0 {
		return nil
	}
	var report strings.Builder
	a.report(&report)
	return fmt.Errorf("%s cannot be imported: it has problems, and nothing was written:\n%swrite the documents as files with: flux-resourceset import --from %s --export-to DIR; edit them there, and apply them to the empty fleet", path, report.String(), path)
}

// report writes the problems, one on a line.
func (a *adoption) report(w *strings.Builder) {
	for _, p := range a.problems {
		at := strings.TrimSpace(p.Pointer)
		if at != "" {
			at += ": "
		}
		fmt.Fprintf(w, "  %s%s\n", at, p.Detail)
	}
}

// at returns the prefix of a document's problems in reports.
func at(kind fleet.Kind, id string) string { return referenceNames[kind] + "/" + id + " " }

// problem adds a problem at a JSON pointer of a document; empty: of the whole document.
func (a *adoption) problem(kind fleet.Kind, id, pointer, format string, args ...any) {
	a.problems = append(a.problems, fleet.Problem{Pointer: at(kind, id) + pointer, Detail: fmt.Sprintf(format, args...)})
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
			err = errors.New("must be an object")
		}
		id, _ := cmp.Or(obj["_id"], obj["id"]).(string)
		id = cmp.Or(id, fmt.Sprintf("(row %d by id)", i+1))
		switch {
		case err != nil:
			a.problem(kind, id, "", "%v", err)
			continue
		case a.known[kind][id]:
			a.problem(kind, id, "", "is defined twice")
		}
		if obj["_id"] == id {
			obj["id"] = id
			delete(obj, "_id")
		}
		a.adopt(kind, id, obj)
	}
}

func (a *adoption) adopt(kind fleet.Kind, id string, obj map[string]any) {
	a.docs[kind] = append(a.docs[kind], &adopted{id, obj})
	a.known[kind][id] = true
}

// defineInline creates definitions for namespaces that clusters contain inline, as they did before the reference had
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
			is := [2]any{orEmpty(entry["labels"]), orEmpty(entry["annotations"])}
			first, defined := from[id]
			if defined && !reflect.DeepEqual(content[id], is) {
				a.problem(fleet.KindCluster, c.id, fmt.Sprintf("/namespaces/%d", i), "namespace %q has other labels or annotations than on cluster %q, and can have only one definition: make them the same, or give one of them another name", id, first)
				continue
			}
			list[i] = map[string]any{"id": id}
			switch {
			case !defined && a.known[fleet.KindNamespace][id]:
				a.note(fleet.KindCluster, c.id, "namespaces: %q also has a definition, which takes precedence", id)
			case !defined:
				from[id], content[id] = c.id, is
				a.adopt(fleet.KindNamespace, id, map[string]any{"id": id, "labels": is[0], "annotations": is[1]})
				a.note(fleet.KindNamespace, id, "is defined as cluster %q has it", c.id)
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

// dangling leaves out references to documents that do not exist, and patches of components that are not assigned. The reference skips
// them in answers to polls, so they went unnoticed.
func (a *adoption) dangling() {
	leftOut := func(kind fleet.Kind, id, where, what string) bool {
		a.note(kind, id, "%s: %q is left out: it does not exist", where, what)
		return true
	}
	for _, c := range a.docs[fleet.KindComponent] {
		dependencies, ok := c.obj["depends_on"].([]any)
		if !ok {
			continue // null, or left for validation to refuse
		}
		c.obj["depends_on"] = slices.DeleteFunc(dependencies, func(item any) bool {
			id, ok := item.(string)
			return ok && !a.known[fleet.KindComponent][id] && leftOut(fleet.KindComponent, c.id, "depends_on", id)
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
				return ok && !a.known[kind][id] && leftOut(fleet.KindCluster, c.id, field, id)
			})
		}
		patches, _ := c.obj["patches"].(map[string]any)
		for _, id := range slices.Sorted(maps.Keys(patches)) {
			if values, _ := patches[id].(map[string]any); len(values) > 0 && !on[id] && leftOut(fleet.KindCluster, c.id, "patches", id) {
				delete(patches, id)
			}
		}
	}
}

// charts makes Helm charts of the components of an oci:// URL whose patches are paths of Helm values: the reference makes a Helm
// release of every component, and here the URL alone means a Kustomization, whose variables have no such names.
func (a *adoption) charts() {
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
			c.obj["type"] = "helm"
			a.note(fleet.KindComponent, c.id, "is of type helm: its patches are paths of Helm values")
		}
	}
}
