package fluximport

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// outcome is what becomes of a field. Each field of the spec of each object has exactly one.
type outcome int

const (
	taken    outcome = iota // a document has it
	template                // the templates of the clusters set it
	replaced                // the object is no longer needed
	left                    // the fleet cannot have it
)

var outcomes = []string{"taken", "default of the template", "replaced", "not expressible"}

// field is a field of an object: a value that is no map with entries. An entry of a list is a field only in the lists of listFields.
type field struct {
	cluster  string
	object   fluxdump.Ref
	path     string
	outcome  outcome
	proposal string // why it is not expressible, and what to do
}

// Report counts the fields of all objects and lists those that the fleet cannot have.
type Report struct {
	fields   []field
	byObject map[objectOf][]int         // indexes of the fields
	objects  map[kept]map[objectOf]bool // that the import leaves as they are
	steps    map[string][]string        // before the hand-over, with the clusters
	ignored  map[objectOf][]path        // differences that the report lists
	clusters []*fluxdump.Cluster
	Types    []TypeCount
	Before   int // lines of YAML in the dump
	After    int // lines of YAML in the written files, without resource types
}

// TypeCount counts the custom objects that have a definition of a resource type.
type TypeCount struct {
	ID                   string
	Objects, Definitions int
}

type (
	objectOf struct {
		cluster string
		object  fluxdump.Ref
	}
	kept struct{ kind, reason string }
	path = string
)

func newReport() *Report {
	return &Report{steps: map[string][]string{}, objects: map[kept]map[objectOf]bool{}, byObject: map[objectOf][]int{}, ignored: map[objectOf][]path{}}
}

func (r *Report) add(cluster string, o fluxdump.Ref, at path, what outcome, format string, values ...any) {
	r.byObject[objectOf{cluster, o}] = append(r.byObject[objectOf{cluster, o}], len(r.fields))
	r.fields = append(r.fields, field{cluster, o, at, what, fmt.Sprintf(format, values...)})
	if what == left {
		r.ignored[objectOf{cluster, o}] = append(r.ignored[objectOf{cluster, o}], at)
	}
}

// keep records an object that stays as it is.
func (r *Report) keep(cluster string, o fluxdump.Ref, reason string) {
	k := kept{strings.TrimPrefix(o.Group+"/"+o.Kind, "/"), reason}
	if r.objects[k] == nil {
		r.objects[k] = map[objectOf]bool{}
	}
	r.objects[k][objectOf{cluster, o}] = true
}

// reject makes a field of an object, and those below it, not expressible; an empty path means all of them.
func (r *Report) reject(cluster string, o fluxdump.Ref, at path, reason string) {
	r.ignored[objectOf{cluster, o}] = append(r.ignored[objectOf{cluster, o}], at)
	for _, i := range r.byObject[objectOf{cluster, o}] {
		if f := &r.fields[i]; at == "" || f.path == at || strings.HasPrefix(f.path, at+".") {
			f.outcome, f.proposal = left, reason
		}
	}
}

// step records what to do on a cluster before the hand-over.
func (r *Report) step(cluster, format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	r.steps[text] = append(r.steps[text], cluster)
}

// listed reports whether the report lists a difference of an object at a path.
func (r *Report) listed(cluster string, o fluxdump.Ref, at path) bool {
	return slices.ContainsFunc(r.ignored[objectOf{cluster, o}], func(known path) bool {
		return at == known || strings.HasPrefix(at, known+".") || strings.HasPrefix(known, at+".")
	})
}

// counts returns the number of fields by kind of object and outcome.
func (r *Report) counts() map[string][4]int {
	out := map[string][4]int{}
	for _, f := range r.fields {
		n := out[f.object.Kind]
		n[f.outcome]++
		out[f.object.Kind] = n
	}
	return out
}

// Totals returns the numbers of taken fields, of defaults of the templates, of replaced fields and of those that are not expressible.
func (r *Report) Totals() (sum [4]int) {
	for _, f := range r.fields {
		sum[f.outcome]++
	}
	return sum
}

// Markdown returns the report, without values of Secrets.
func (r *Report) Markdown() string {
	text := r.markdown()
	for _, c := range r.clusters {
		text = c.Mask(text, cell)
	}
	return text
}

func (r *Report) markdown() string {
	var b strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	line("# Import of %s\n", plural(len(r.clusters), "cluster"))
	line("Lines of YAML: %d in the dumps (objects of Flux, namespaces, role bindings, and custom objects that are taken), %d in the files of the fleet (without resource types).\n", r.Before, r.After)
	line("## Fields\n\nEach field of the `spec` of each object is counted once, by its outcome. *Replaced* are fields of Kustomizations and sources that are not needed after the hand-over.\n")
	line("| kind | %s |\n|---|---|---|---|---|", strings.Join(outcomes, " | "))
	row := func(name string, n [4]int) { line("| %s | %d | %d | %d | %d |", name, n[0], n[1], n[2], n[3]) }
	counts := r.counts()
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		row(kind, counts[kind])
	}
	row("**all**", r.Totals())
	if len(r.Types) > 0 {
		line("\n## Resource types\n\nEach has the schema of a CustomResourceDefinition, which the fleet does not install. Flux keeps the objects when they are unassigned, until you change `removal`.\n")
		line("| resource type | objects | definitions |\n|---|---|---|")
	}
	for _, of := range r.Types {
		line("| %s | %d | %d |", of.ID, of.Objects, of.Definitions)
	}
	r.writeLeft(line)
	if len(r.objects) > 0 {
		line("\n## Objects that stay as they are\n\nThe import neither takes nor changes them. Check them before you delete the Kustomization that applies them.\n")
		line("| kind | number | objects | reason |\n|---|---|---|---|")
		for _, k := range slices.SortedFunc(maps.Keys(r.objects), func(a, b kept) int {
			return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.reason, b.reason))
		}) {
			var names []string
			for of := range r.objects[k] {
				names = append(names, cell(strings.TrimPrefix(of.object.String(), of.object.Kind+" ")))
			}
			line("| %s | %d | %s | %s |", cell(k.kind), len(r.objects[k]), few(names), cell(k.reason))
		}
	}
	if len(r.steps) > 0 {
		line("\n## Before the hand-over\n")
		for _, step := range slices.Sorted(maps.Keys(r.steps)) {
			line("- %s: %s", few(r.steps[step]), cell(step))
		}
	}
	return b.String()
}

// writeLeft lists the fields that are not expressible. Fields of an object with one proposal are one line, on all clusters.
func (r *Report) writeLeft(line func(format string, values ...any)) {
	type key struct {
		object   fluxdump.Ref
		proposal string
	}
	clusters, paths := map[key][]string{}, map[key][]string{}
	for _, f := range r.fields {
		if k := (key{f.object, f.proposal}); f.outcome == left {
			clusters[k], paths[k] = append(clusters[k], f.cluster), append(paths[k], "`"+cell(f.path)+"`")
		}
	}
	if len(clusters) == 0 {
		return
	}
	objects := map[string]int{}
	for k := range clusters {
		objects[k.proposal]++
	}
	line("\n## Not expressible\n\nWithout these fields the objects would not be the same. A component without a value, a post-renderer or a patch is disabled: complete and enable it before the hand-over, or leave it to Flux.\n\n| objects | proposal |\n|---|---|")
	for _, proposal := range slices.SortedFunc(maps.Keys(objects), func(a, b string) int {
		return cmp.Or(cmp.Compare(objects[b], objects[a]), cmp.Compare(a, b))
	}) {
		line("| %d | %s |", objects[proposal], cell(proposal))
	}
	line("\n| object | fields | clusters | proposal |\n|---|---|---|---|")
	for _, k := range slices.SortedFunc(maps.Keys(clusters), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.object.String(), b.object.String()), cmp.Compare(a.proposal, b.proposal))
	}) {
		line("| %s | %s | %s | %s |", cell(k.object.String()), few(paths[k]), few(clusters[k]), cell(k.proposal))
	}
}

// few returns the first of some names, each once, and the number of the others.
func few(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	if n := len(names); n > 4 {
		return strings.Join(names[:3], ", ") + " and " + strconv.Itoa(n-3) + " more"
	}
	return strings.Join(names, ", ")
}

// cell returns a text that cannot end a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "`", "'").Replace(text)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Lines returns the number of lines of YAML of the objects that an import reads, without their status.
func (r *Result) Lines() (n int, err error) {
	for _, t := range r.clusters {
		custom := map[fluxdump.Ref]bool{}
		for _, o := range t.defined {
			custom[o.Ref] = true
		}
		for _, o := range t.cluster.Objects {
			if o.Group != sourceGroup && o.Group != rbacGroup && o.Kind != "Namespace" && !isRelease(o.Ref) && !isKustomization(o.Ref) && !custom[o.Ref] {
				continue
			}
			fields := map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind}
			maps.Copy(fields, customFields(o))
			for _, name := range []string{"name", "namespace", "labels", "annotations"} {
				if value := o.At("metadata", name); value != nil {
					fields["metadata "+name] = value
				}
			}
			raw, err := render.Encode(fields)
			if err != nil {
				return 0, err
			}
			text, err := render.YAML(raw)
			if err != nil {
				return 0, err
			}
			n += strings.Count(string(text), "\n")
		}
	}
	return n, nil
}
