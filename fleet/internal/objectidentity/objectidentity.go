// Package objectidentity finds out which fields of an input name the Kubernetes objects that a ResourceSet's template makes of it. Flux
// deletes an object whose apiVersion, kind, name or namespace changes and creates another one, so a change of these fields is a removal.
//
// The template is analysed and never executed. Where the analysis is not sure, it names too many fields rather than too few.
package objectidentity

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"text/template/parse"
)

// Whole is the path of the whole input: a change of any field may rename an object.
const Whole = ""

// Identity describes how a template names its objects.
type Identity struct {
	// Fields are the paths of the fields that can change which objects there are, sorted: "namespace", "object.name", "cluster.environment".
	Fields []string
	// Direct are those of them whose values certainly become part of a name. The others decide whether an object is there at all, or are
	// in a place that the analysis does not understand.
	Direct []string
	// Presence are other paths of which only matters whether the value is empty: in conditions.
	Presence []string
	// Names is a digest of how the template writes the identities: two templates with the same one name their objects alike.
	Names string
}

// Unknown is the identity of objects of which no template is known.
func Unknown() Identity { return Identity{Fields: []string{Whole}} }

// maxSteps is how many parts of a template are visited: templates that call each other can come to any number.
const maxSteps = 20_000

// maxText is how long the text of a template may become with the templates that it calls.
const maxText = 256 << 10

// Of analyses a ResourceSet's resourcesTemplate.
func Of(template string) Identity {
	if strings.TrimSpace(template) == "" {
		return Unknown()
	}
	trees := map[string]*parse.Tree{}
	tree := parse.New("template")
	tree.Mode = parse.SkipFuncCheck
	if _, err := tree.Parse(template, "<<", ">>", trees); err != nil || strings.ContainsAny(template, string([]rune{open, shut})) {
		return Identity{Fields: []string{Whole}, Names: digest(template)}
	}
	data := value{fields: []string{Whole}, source: "data"} // templates read their input by the function inputs
	s := &skeleton{trees: trees, vars: []variable{{"$", data}}}
	if tree.Root != nil {
		s.list(tree.Root, data)
	}
	if s.steps >= maxSteps {
		return Identity{Fields: []string{Whole}, Names: digest(template)}
	}
	return s.identity()
}

// Covers reports whether a list of paths contains a path or one that leads to it.
func Covers(paths []string, path string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return p == path || p == Whole || strings.HasPrefix(path, p+".") })
}

// value is what is known about an expression's value.
type value struct {
	fields []string // paths of the input that it depends on
	path   string   // with exact: it is the value at this path of the input, and depends on nothing else
	exact  bool
	source string // digest of how it is made
}

func (v value) under(names ...string) value {
	if len(names) == 0 {
		return v
	}
	next := v
	next.source = digest(v.source, strings.Join(names, "."))
	if v.exact {
		next.path = strings.TrimPrefix(v.path+"."+strings.Join(names, "."), ".")
		next.fields = []string{next.path}
	}
	return next
}

// combined is a value made of others in a way that is written like that.
func combined(how string, of ...value) value {
	out := value{source: how}
	for _, v := range of {
		out.fields = append(out.fields, v.fields...)
		out.source = digest(out.source, v.source)
	}
	out.fields = normal(out.fields)
	return out
}

// normal is a sorted list of paths without those that others lead to.
func normal(paths []string) []string {
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	var out []string
	for _, p := range paths {
		if !Covers(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// served removes what the service does not serve, or what never differs for one id. The receipt is a digest of the whole input.
func served(paths []string) []string {
	var out []string
	for _, p := range paths {
		switch name, _, _ := strings.Cut(p, "."); name {
		case "id", "settings", "provider":
		case "receipt":
			out = append(out, Whole)
		default:
			out = append(out, p)
		}
	}
	return normal(out)
}

func digest(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(p), p)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}
