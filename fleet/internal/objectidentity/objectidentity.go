// Package objectidentity finds the fields of an input that determine the names of the Kubernetes objects which a
// ResourceSet's template renders. Flux deletes an object whose apiVersion, kind, name or namespace changes and creates
// another one, so a change of these fields is a removal.
//
// The template is analyzed and never executed. Where the analysis is uncertain, it returns too many fields rather than too
// few.
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
	// Fields are the paths of the fields that can change the set of objects, sorted: "namespace", "object.name",
	// "cluster.environment".
	Fields []string
	// Direct are the paths in Fields whose values certainly become part of a name. The others decide whether an object
	// exists at all, or occur in a place that the analysis does not understand.
	Direct []string
	// Presence are other paths, used in conditions, of which it matters only whether the value is empty.
	Presence []string
	// Names is a digest of the expressions for the identities: two templates with the same digest name their objects alike.
	Names string
}

// Unknown returns the identity for an unknown template.
func Unknown() Identity { return Identity{Fields: []string{Whole}} }

// maxSteps limits the visited parts of a template: templates that call each other can expand to any number.
const maxSteps = 20_000

// maxText is the maximum size, in bytes, of a template with the templates that it calls.
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

// value describes the value of an expression.
type value struct {
	fields []string // paths of the input that it depends on
	path   string   // with exact: it is the value at this path of the input, and depends on no other field
	exact  bool
	source string // digest of the expression
}

// under returns the value of a field, given the names that lead to it.
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

// combined returns a value computed from others; how is the text of the expression.
func combined(how string, of ...value) value {
	out := value{source: how}
	for _, v := range of {
		out.fields = append(out.fields, v.fields...)
		out.source = digest(out.source, v.source)
	}
	out.fields = normal(out.fields)
	return out
}

// normal returns sorted paths, without paths below another one.
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

// served removes fields that the service does not serve or that never differ for one id. The receipt is a digest of the
// whole input.
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

// digest returns a digest of some texts.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(p), p)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16])
}
