package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/fleet"
)

// fixes are the changes that the flags of import make to the documents of the reference. The zero value changes nothing.
// A document is named by its original id or by its new one from --rename, so flags can be added to a command line in any
// order.
type fixes struct {
	flags          map[string]map[string]string // values by flag and name: --rename: cluster/US_West: us-west
	unused         map[string]map[string]bool   // names without a document so far, by flag
	settings       []string                     // KIND/ID/FIELD=VALUE
	dropDangling   bool                         // leave out references to documents that do not exist
	dropDuplicates bool                         // keep the first of several
}

// namedFlags are the flags whose values begin with a name.
var namedFlags = []string{"--type", "--rename", "--environment", "--orphan", "--drop"}

func fixFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "drop-dangling", Usage: "leave out references to what is not there, and patches of components that are not assigned"},
		&cli.BoolFlag{Name: "drop-duplicates", Usage: "keep the first of entries that a list has twice, and of definitions with one id"},
		&cli.StringSliceFlag{Name: "type", Usage: "`ID=TYPE` of a component, helm or kustomize; repeat for more (default: kustomize for an oci:// URL, else helm)"},
		&cli.StringSliceFlag{Name: "rename", Usage: "`KIND/OLD=NEW` id of a component, namespace, rolebinding or cluster, in everything that refers to it, too; repeat for more"},
		&cli.StringSliceFlag{Name: "rename-cluster", Usage: "`OLD=NEW`: the same as --rename cluster/OLD=NEW"},
		&cli.StringSliceFlag{Name: "environment", Usage: "`OLD=NEW` environment of clusters; OLD may be empty; repeat for more"},
		&cli.StringSliceFlag{Name: "orphan", Usage: "`NAMESPACE` that Flux keeps when it is removed from a cluster (deletion_policy: orphan); repeat for more"},
		&cli.StringSliceFlag{Name: "drop", Usage: "`KIND/ID` of a document to leave out; repeat for more"},
		&cli.StringSliceFlag{Name: "set", Usage: "`KIND/ID/FIELD=VALUE` of a document: JSON where the field holds something else than text; without a value the field is left out; repeat for more"},
	}
}

// fixesOf parses the flags and returns their problems.
func fixesOf(c *cli.Context) (f fixes, problems []string) {
	f = fixes{
		flags: map[string]map[string]string{}, unused: map[string]map[string]bool{}, settings: c.StringSlice("set"),
		dropDangling: c.Bool("drop-dangling"), dropDuplicates: c.Bool("drop-duplicates"),
	}
	for _, flag := range namedFlags {
		f.flags[flag], f.unused[flag] = map[string]string{}, map[string]bool{}
	}
	pair := func(flag, arg string, cut int, as, prefix string) {
		if cut < 0 || arg[cut+1:] == "" || cut == 0 && flag != "--environment" {
			problems = append(problems, fmt.Sprintf("%s is %q: it must be two names with = between them", flag, arg))
			return
		}
		f.add(as, prefix+arg[:cut], arg[cut+1:])
	}
	for _, arg := range c.StringSlice("type") {
		pair("--type", arg, strings.IndexByte(arg, '='), "--type", "component/")
	}
	for _, arg := range c.StringSlice("environment") {
		pair("--environment", arg, strings.LastIndexByte(arg, '='), "--environment", "")
	}
	for _, arg := range c.StringSlice("rename-cluster") {
		pair("--rename-cluster", arg, strings.LastIndexByte(arg, '='), "--rename", "cluster/")
	}
	kinds := func(flag, arg string) bool {
		kind, id, _ := strings.Cut(arg, "/")
		ok := id != "" && slices.Contains(slices.Collect(maps.Values(referenceNames)), kind)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s is %q: it must start with component/ID, namespace/ID, rolebinding/ID or cluster/ID", flag, arg))
		}
		return ok
	}
	for _, arg := range c.StringSlice("rename") {
		if kinds("--rename", arg) {
			pair("--rename", arg, strings.LastIndexByte(arg, '='), "--rename", "")
		}
	}
	for _, arg := range c.StringSlice("orphan") {
		f.add("--orphan", "namespace/"+arg, "orphan")
	}
	for _, arg := range c.StringSlice("drop") {
		if kinds("--drop", arg) {
			f.add("--drop", arg, "")
		}
	}
	for _, arg := range f.settings {
		if kinds("--set", arg) && !strings.Contains(arg, "=") {
			problems = append(problems, fmt.Sprintf("--set is %q: it must have a = after the field", arg))
		}
	}
	return f, problems
}

func (f *fixes) add(flag, name, value string) {
	f.flags[flag][name], f.unused[flag][name] = value, true
}

// value returns the value of a flag for the first name that it is set for, and marks the name as used.
func (f *fixes) value(flag string, names ...string) (string, bool) {
	for _, name := range names {
		if value, ok := f.flags[flag][name]; ok {
			delete(f.unused[flag], name)
			return value, true
		}
	}
	return "", false
}

// name returns the name of a document in flags.
func name(kind fleet.Kind, id string) string { return referenceNames[kind] + "/" + id }

// dropped reports whether --drop names a document, by its original or its new id.
func (f *fixes) dropped(kind fleet.Kind, id string) bool {
	names := []string{name(kind, id)}
	if renamed, ok := f.flags["--rename"][name(kind, id)]; ok {
		names = append(names, name(kind, renamed))
	}
	_, ok := f.value("--drop", names...)
	return ok
}

// of returns the value of a flag for a document, by its original or current id.
func (a *adoption) of(flag string, d *adopted) (string, bool) {
	return a.value(flag, name(d.kind, d.was), name(d.kind, d.id))
}

// apply changes the documents according to the flags, and reports flags that name no document.
func (a *adoption) apply() {
	for _, kind := range referenceKinds {
		for _, d := range a.docs[kind] {
			a.rename(d)
		}
	}
	a.renameReferences()
	for _, d := range a.left { // their flags count as used
		for _, flag := range namedFlags {
			a.of(flag, d)
		}
	}
	for _, setting := range a.settings {
		if err := a.set(setting); err != nil {
			a.problems = append(a.problems, fleet.Problem{Detail: fmt.Sprintf("--set %s: %v", setting, err)})
		}
	}
	a.renameReferences() // --set may have introduced original ids
	a.duplicates()
	for _, d := range a.docs[fleet.KindNamespace] {
		if policy, ok := a.of("--orphan", d); ok {
			d.obj["deletion_policy"] = policy
			a.note(d.kind, d.id, "gets deletion_policy %s", policy)
		}
	}
	for _, d := range a.docs[fleet.KindCluster] {
		old, text := d.obj["environment"].(string)
		if env, ok := a.value("--environment", old); ok && (text || d.obj["environment"] == nil) {
			d.obj["environment"] = env
			a.note(d.kind, d.id, "is in environment %q; was %q", env, old)
		}
	}
	for _, d := range a.docs[fleet.KindComponent] {
		if kind, ok := a.of("--type", d); ok {
			d.obj["type"] = kind
			a.note(d.kind, d.id, "is of type %s", kind)
		}
	}
	a.reportUnused()
}

func (a *adoption) reportUnused() {
	for _, flag := range namedFlags {
		for _, unused := range slices.Sorted(maps.Keys(a.unused[flag])) {
			kind, _, _ := strings.Cut(unused, "/")
			if flag == "--environment" {
				unused, kind = "environment "+strconv.Quote(unused), "cluster in it"
			}
			a.problems = append(a.problems, fleet.Problem{Pointer: unused, Detail: flag + " names it, and there is no such " + kind})
		}
	}
}

func (a *adoption) rename(d *adopted) {
	id, ok := a.of("--rename", d)
	if !ok || id == d.id {
		return
	}
	if a.byName[d.kind][id] != nil { // even if that document is renamed too: references to it would point to this one
		a.problem(d.kind, d.id, "cannot be renamed: there is %s already", name(d.kind, id))
		return
	}
	delete(a.known[d.kind], d.id)
	a.known[d.kind][id], a.byName[d.kind][id] = true, d
	delete(d.obj, "_id")
	d.obj["id"], d.id = id, id
	a.note(d.kind, id, "was %q", d.was)
}

// renamed returns the current id of a document.
func (a *adoption) renamed(kind fleet.Kind, id string) string {
	if d, ok := a.byName[kind][id]; ok {
		return d.id
	}
	return id
}

// renameReferences replaces original ids by current ones in all references.
func (a *adoption) renameReferences() {
	for _, d := range a.docs[fleet.KindComponent] {
		list, _ := d.obj["depends_on"].([]any)
		for i, item := range list {
			if id, ok := item.(string); ok {
				list[i] = a.renamed(fleet.KindComponent, id)
			}
		}
	}
	for _, d := range a.docs[fleet.KindCluster] {
		for field, kind := range referenceLists {
			list, _ := d.obj[field].([]any)
			for _, item := range list {
				entry, _ := item.(map[string]any)
				if id, ok := entry["id"].(string); ok {
					entry["id"] = a.renamed(kind, id)
				}
			}
		}
		patches, _ := d.obj["patches"].(map[string]any)
		for _, id := range slices.Collect(maps.Keys(patches)) {
			current := a.renamed(fleet.KindComponent, id)
			if _, taken := patches[current]; current != id && !taken {
				patches[current] = patches[id]
				delete(patches, id)
			}
		}
	}
}

// duplicates finds duplicate entries of lists.
func (a *adoption) duplicates() {
	found := 0
	unique := func(d *adopted, field string) {
		list, ok := d.obj[field].([]any)
		if !ok {
			return
		}
		first := map[string]any{}
		d.obj[field] = slices.DeleteFunc(list, func(item any) bool {
			id, ok := item.(string)
			if entry, isEntry := item.(map[string]any); isEntry {
				id, ok = entry["id"].(string)
			}
			kept, again := first[id]
			if !ok {
				return false
			}
			if !again {
				first[id] = item
				return false
			}
			found++
			if a.dropDuplicates {
				note := ""
				if !reflect.DeepEqual(kept, item) {
					text, err := json.Marshal(item)
					note = fmt.Sprintf(", although it differs: %s", text)
					if err != nil {
						note = fmt.Sprintf(", although it differs: %v", err)
					}
				}
				a.note(d.kind, d.id, "%s: the second %q is left out%s", field, id, note)
			}
			return a.dropDuplicates
		})
	}
	for _, d := range a.docs[fleet.KindComponent] {
		unique(d, "depends_on")
	}
	for _, d := range a.docs[fleet.KindCluster] {
		for _, field := range slices.Sorted(maps.Keys(referenceLists)) {
			unique(d, field)
		}
	}
	a.adviseDuplicates(found)
}

// set applies one --set: KIND/ID/FIELD=VALUE. Ids and keys may contain slashes and equal signs.
func (a *adoption) set(setting string) error {
	word, rest, _ := strings.Cut(setting, "/")
	for kind, known := range referenceNames {
		if known != word {
			continue
		}
		for cut := len(rest) - 1; cut > 0; cut-- {
			if rest[cut] != '/' {
				continue
			}
			if d, ok := a.byName[kind][rest[:cut]]; ok {
				return a.setField(d, rest[cut:])
			}
			if a.dropped(kind, rest[:cut]) {
				return nil
			}
		}
	}
	return fmt.Errorf("there is no such %s", word)
}

func (a *adoption) setField(d *adopted, assignment string) error {
	var pointer, value string
	for i, r := range assignment {
		if r != '=' {
			continue
		}
		if pointer == "" {
			pointer, value = assignment[:i], assignment[i+1:]
		}
		if _, exists := a.lookup(d, assignment[:i]); exists {
			pointer, value = assignment[:i], assignment[i+1:]
			break
		}
	}
	cut := strings.LastIndexByte(pointer, '/')
	in, _ := a.lookup(d, pointer[:cut])
	key := unescapePointer.Replace(pointer[cut+1:])
	holder, ok := in.(map[string]any)
	if !ok || pointer == "/id" || pointer == "/_id" {
		return fmt.Errorf("%s cannot be set", pointer)
	}
	old, exists := holder[key]
	if value == "" {
		if !exists {
			return fmt.Errorf("there is no %s", pointer)
		}
		delete(holder, key)
		a.note(d.kind, d.id, "%s is left out", pointer)
		return nil
	}
	holder[key] = value
	if _, text := old.(string); exists && !text {
		parsed, err := fleet.ParseJSON([]byte(value))
		switch {
		case err == nil:
			holder[key] = parsed
		case old != nil:
			return fmt.Errorf("the value is no JSON: %w", err)
		}
	}
	a.note(d.kind, d.id, "%s is set to %s", pointer, value)
	return nil
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// lookup returns the value at a JSON pointer of a document. Entries of lists can be named by their ids, and components
// by their original ids.
func (a *adoption) lookup(d *adopted, pointer string) (v any, exists bool) {
	v = any(d.obj)
	for i, step := range strings.Split(pointer, "/") {
		if i == 0 {
			continue
		}
		step = unescapePointer.Replace(step)
		switch in := v.(type) {
		case map[string]any:
			v, exists = in[step]
			if !exists {
				v, exists = in[a.renamed(fleet.KindComponent, step)]
			}
		case []any:
			at := slices.IndexFunc(in, func(item any) bool {
				entry, _ := item.(map[string]any)
				id, ok := entry["id"].(string)
				return ok && (id == step || id == a.renamed(fleet.KindComponent, step))
			})
			if n, err := strconv.Atoi(step); at < 0 && err == nil && n >= 0 && n < len(in) {
				at = n
			}
			if exists = at >= 0; exists {
				v = in[at]
			}
		default:
			exists = false
		}
		if !exists {
			return nil, false
		}
	}
	return v, true
}
