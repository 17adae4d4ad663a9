package fluximport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fluxdump"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/internal/strictyaml"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
)

// reference is a text with references whose result the server types, as Flux does with a variable in YAML.
type reference string

// convert returns values without those that contain a value of a Secret, with references of the fleet in place of those of Flux. What the
// fleet cannot have is left out.
func (t *translator) convert(c *component, at path, value any) any {
	if fields, isMap := value.(map[string]any); isMap && len(fields) > 0 {
		out := map[string]any{}
		for key, below := range fields {
			here := at + "." + input.EscapeName(key)
			if secret, found := t.cluster.SecretIn(key); found {
				t.leave(c, here, secretProposal(secret))
			} else if converted := t.convert(c, here, below); converted != omitted {
				out[key] = converted
			}
		}
		return out
	}
	var problem string
	_, whole := value.(string) // the text is no entry of a list
	converted := mapTexts(value, func(text string) any {
		out, reason := t.text(c.object, text, whole)
		problem = cmp.Or(problem, reason)
		return out
	})
	if problem != "" {
		t.leave(c, at, problem)
		return omitted
	}
	return converted
}

// text returns a text of an object with references of the fleet in place of those of Flux, or the reason why the fleet cannot have it.
func (t *translator) text(o fluxdump.Object, text string, whole bool) (out any, problem string) {
	if secret, found := t.cluster.SecretIn(text); found {
		return omitted, secretProposal(secret)
	}
	if !isUnbuilt(o) {
		return escapeReferences(text), ""
	}
	return t.references(text, whole)
}

// omitted is the result of a value that the fleet cannot have.
var omitted any = struct{ omitted bool }{true}

func secretProposal(secret fluxdump.Ref) string {
	return fmt.Sprintf("it contains a value of %s, which is not written to files: use values_from, and see docs/secrets.md", secret)
}

// leave records a value that is left out: as a field, if the object itself has it.
func (t *translator) leave(c *component, at path, proposal string) {
	if _, own := leaves(c.object.At("spec"))[at]; own {
		t.field(c.object, at, left, "%s", proposal)
		return
	}
	t.report.ignored[objectOf{t.cluster.Name, c.object.Ref}] = append(t.report.ignored[objectOf{t.cluster.Name, c.object.Ref}], at)
	t.report.step(t.cluster.Name, "%s of %s: %s", at, c.object.Ref, proposal)
}

// mapTexts returns a copy of a value with other texts.
func mapTexts(value any, change func(text string) any) any {
	return fluxdump.Map(value, nil, func(leaf any) any {
		if text, ok := leaf.(string); ok {
			return change(text)
		}
		return leaf
	})
}

func escapeReferences(text string) string {
	return strings.NewReplacer("${cluster.", "$${cluster.", "${vars.", "$${vars.").Replace(text)
}

// isUnbuilt reports whether an object comes from kustomize build, so that its texts have the references of Flux. The API server sets a uid.
func isUnbuilt(o fluxdump.Object) bool { return o.Text("metadata", "uid") == "" }

// fluxReference matches a reference of Flux's variable substitution, and an escaped one.
var fluxReference = regexp.MustCompile(`\$?\$\{([_A-Za-z][_A-Za-z0-9]*)(:?[=-]([^}$]*))?\}|\$\{[^}]*\}?`)

// references returns a text with references of the fleet in place of those of Flux, or the reason why that is not possible.
func (t *translator) references(text string, whole bool) (any, string) {
	reason, found := "", false
	out := fluxReference.ReplaceAllStringFunc(text, func(ref string) string {
		parts := fluxReference.FindStringSubmatch(ref)
		name := parts[1]
		value, set := t.settings[name]
		known, hasDefault := t.defaults[name]
		switch {
		case strings.HasPrefix(ref, "$$"):
			return escapeReferences(ref[1:])
		case name == "" || !variables.IsName(name):
			reason = fmt.Sprintf("%s is not possible: only ${NAME} and ${NAME:=default}", ref)
		case !set && parts[2] == "":
			reason = fmt.Sprintf("no ConfigMap of settings in the dump has %s; if a Secret has it, use values_from", name)
		case set && value == "" && parts[2] != "":
			reason = fmt.Sprintf("%s is empty in the settings, where Flux takes the default: set it", name)
		case !set && hasDefault && known != parts[3]:
			reason = fmt.Sprintf("%s has other defaults elsewhere, and a variable has one value: set it in the settings", name)
		default:
			if !set {
				t.defaults[name] = parts[3]
			}
			t.used[name], found = true, true
		}
		return "${vars." + name + "}"
	})
	if found && whole && fluxReference.FindString(text) == text {
		return reference(out), reason
	}
	return out, reason
}

// substituted returns a value as Flux makes it of an object from kustomize build.
func substituted(value any, settings map[string]string) any {
	return mapTexts(value, func(text string) any {
		out := fluxReference.ReplaceAllStringFunc(text, func(ref string) string {
			if strings.HasPrefix(ref, "$$") {
				return ref[1:]
			}
			if parts := fluxReference.FindStringSubmatch(ref); parts[1] != "" {
				return cmp.Or(settings[parts[1]], parts[3])
			}
			return ref
		})
		if out == text || strings.HasPrefix(text, "$$") {
			return out
		}
		if raw, err := strictyaml.Stream([]byte(out + "\n")); err == nil && len(raw) == 1 {
			if typed, err := strictyaml.Decode(raw[0]); err == nil {
				return typed
			}
		}
		return out
	})
}

// substitutions takes the variables of a Kustomization, or returns the reason why that is not possible: without one of them, Flux would
// replace it by nothing.
func (t *translator) substitutions(c *component) (reason string) {
	c.substitute = map[string]any{}
	for _, e := range c.object.Entries("spec", "postBuild", "substituteFrom") {
		_, ok := t.cluster.Find(fluxdump.Ref{Kind: e.Text("kind"), Namespace: c.object.Namespace, Name: e.Text("name")})
		switch {
		case e.Text("kind") != "ConfigMap":
			return "the variables of a Secret would be stored in clear: let the objects read the Secret"
		case !ok && !e.Flag("optional"):
			return fmt.Sprintf("ConfigMap %s/%s is not in the dump: add it", c.object.Namespace, e.Text("name"))
		}
	}
	for name, text := range t.postBuild(c.object) {
		if secret, found := t.cluster.SecretIn(text); found {
			reason = secretProposal(secret)
		}
		c.substitute[name] = escapeReferences(text)
	}
	return reason
}

// postBuild returns the variables of a Kustomization: its own ones override those of ConfigMaps, and later ConfigMaps earlier ones.
func (t *translator) postBuild(o fluxdump.Object) map[string]string {
	out := map[string]string{}
	for _, e := range o.Entries("spec", "postBuild", "substituteFrom") {
		configMap, _ := t.cluster.Find(fluxdump.Ref{Kind: e.Text("kind"), Namespace: o.Namespace, Name: e.Text("name")})
		for name, value := range configMap.Below("data").Fields {
			out[name] = fmt.Sprint(value)
		}
	}
	for name, value := range o.Below("spec", "postBuild", "substitute").Fields {
		out[name] = fmt.Sprint(value)
	}
	return out
}

// split divides settings of the clusters of a component: common has a value for each path that all have, if more than half have the same
// one or always, and own the different values of each cluster. If references to variables make the values of all clusters equal, common has
// the references.
func split(members []map[path]any, always bool, settings []map[string]string, use func(i int, name string)) (common map[path]any, own []map[path]any) {
	common, own = map[path]any{}, make([]map[path]any, len(members))
	for i, m := range members {
		own[i] = maps.Clone(m)
	}
	for _, at := range slices.Sorted(maps.Keys(members[0])) {
		values := make([]any, len(members))
		for i, m := range members {
			values[i] = m[at]
		}
		if slices.ContainsFunc(members, func(m map[path]any) bool { _, has := m[at]; return !has }) {
			continue
		}
		if text, names := templated(values, settings); text != nil {
			for i := range values {
				values[i] = text
				for _, name := range names {
					use(i, name)
				}
			}
		}
		best, n := mostFrequent(values)
		if !always && 2*n <= len(values) {
			continue
		}
		common[at] = best
		for i := range members {
			if delete(own[i], at); !reflect.DeepEqual(values[i], common[at]) {
				own[i][at] = values[i]
			}
		}
	}
	return common, own
}

// mostFrequent returns the value that is there most often, of equally frequent ones the first, and how often.
func mostFrequent[T any](values []T) (best T, most int) {
	count, keys := map[string]int{}, make([]string, len(values))
	for i, value := range values {
		keys[i] = fmt.Sprintf("%T %#v", value, value)
		count[keys[i]]++
	}
	for i, value := range values {
		if n := count[keys[i]]; n > most {
			best, most = value, n
		}
	}
	return best, most
}

// templated returns one value with references to variables for different values of clusters; nil: there is none.
func templated(values []any, settings []map[string]string) (text any, names []string) {
	if len(values) < 2 || len(settings) == 0 || !slices.ContainsFunc(values, func(v any) bool { return !reflect.DeepEqual(v, values[0]) }) {
		return nil, nil
	}
	shared := []string{}
	for name := range settings[0] {
		if variables.IsName(name) && !slices.ContainsFunc(settings, func(s map[string]string) bool { return s[name] == "" || strings.Contains(s[name], "${") }) {
			shared = append(shared, name)
		}
	}
	slices.Sort(shared)
	for _, name := range shared {
		if text := same(values, settings, []string{name}); text != nil {
			return text, []string{name}
		}
	}
	if text := same(values, settings, shared); text != nil {
		return text, shared
	}
	return nil, nil
}

// same returns the value of all clusters after their values of some variables are replaced by references; nil: they differ.
func same(values []any, settings []map[string]string, names []string) any {
	var first any
	for i, value := range values {
		converted := replaceValues(value, settings[i], names)
		if i > 0 && !reflect.DeepEqual(converted, first) {
			return nil
		}
		first = converted
	}
	return first
}

// replaceValues replaces the values of variables by references: whole values, and clear parts of texts.
func replaceValues(value any, settings map[string]string, names []string) any {
	for _, name := range names {
		if number, ok := value.(json.Number); ok && number.String() == settings[name] {
			return reference("${vars." + name + "}")
		}
	}
	return mapTexts(value, func(text string) any {
		for _, name := range names {
			if text == settings[name] {
				return "${vars." + name + "}"
			}
			if len(settings[name]) >= 3 {
				text = replaceWords(text, settings[name], "${vars."+name+"}")
			}
		}
		return text
	})
}

// replaceWords replaces a part of a text where neither a letter nor a digit is beside it.
func replaceWords(text, old, with string) string {
	var out strings.Builder
	for {
		at := strings.Index(text, old)
		if at < 0 {
			return out.String() + text
		}
		end := at + len(old)
		out.WriteString(text[:at])
		if at > 0 && isWord(text[at-1]) || end < len(text) && isWord(text[end]) {
			out.WriteString(old)
		} else {
			out.WriteString(with)
		}
		text = text[end:]
	}
}

func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '_'
}

// valuePaths returns values of several clusters by path, each divided at the same places: where one cluster has no map with entries, or a
// name that no path can have, none is divided.
func valuePaths(trees []any) []map[path]any {
	out := make([]map[path]any, len(trees))
	for i := range out {
		out[i] = map[path]any{}
	}
	addPaths(out, "", trees, 1)
	return out
}

const maxPathNames = 30

// escapeNames escapes references in the names of a value that one path has, so that the server refuses this value and not the fleet.
func escapeNames(value any) any {
	return fluxdump.Map(value, escapeReferences, func(leaf any) any { return leaf })
}

func addPaths(out []map[path]any, at path, trees []any, depth int) {
	divide, keys := depth <= maxPathNames, map[string]bool{}
	for _, tree := range trees {
		fields, isMap := tree.(map[string]any)
		divide = divide && (tree == omitted || isMap && (len(fields) > 0 || at == ""))
		for key := range fields {
			keys[key] = true
			divide = divide && key != ""
		}
	}
	if !divide {
		for i, tree := range trees {
			if tree != omitted && at != "" {
				out[i][at] = escapeNames(tree)
			}
		}
		return
	}
	for key := range keys {
		below := make([]any, len(trees))
		for i, tree := range trees {
			below[i] = omitted
			if fields, _ := tree.(map[string]any); fields != nil {
				if value, ok := fields[key]; ok {
					below[i] = value
				}
			}
		}
		addPaths(out, strings.TrimPrefix(at+"."+input.EscapeName(key), "."), below, depth+1)
	}
}

// patches returns values by path as the API takes them.
func patches(values map[path]any) map[string]any {
	out := map[string]any{}
	for at, value := range values {
		if text, ok := value.(string); ok && staysText.MatchString(variableReference.ReplaceAllString(text, "")) {
			out[at] = text
		} else if ref, ok := value.(reference); ok {
			out[at] = string(ref)
		} else {
			out[at] = input.Patch(value)
		}
	}
	return out
}

var (
	variableReference = regexp.MustCompile(`\$\{vars\.[^}]*\}`)
	// staysText matches a text that the server types as no number and no boolean, whatever a reference in it is replaced by.
	staysText = regexp.MustCompile(`^[A-Za-z][^"']*[./:@]`)
)

// nested returns settings of Flux by path as an object.
func nested(settings map[path]any) map[string]any {
	out := map[string]any{}
	for at, value := range settings {
		steps := strings.Split(at, ".")
		into := out
		for _, step := range steps[:len(steps)-1] {
			below, _ := into[step].(map[string]any)
			if below == nil {
				below = map[string]any{}
				into[step] = below
			}
			into = below
		}
		into[steps[len(steps)-1]] = value
	}
	return out
}
