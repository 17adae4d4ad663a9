package summarize

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// EffectKind is the kind of an EffectLine.
type EffectKind int

// Kinds of lines of an effect.
const (
	EffectForgotten EffectKind = iota // the clusters are forgotten; Note has the consequence
	EffectList                        // Text is the list that the lines after it are about
	EffectRemoved                     // the input Text is removed; Note has the consequence
	EffectChanged                     // the input Text changes; Note is empty, or the consequence when its objects are removed
	EffectField                       // the field Text of the input changes, as Field has it
	EffectAdded                       // the input Text is added; Note describes it
	EffectReordered                   // the order of the inputs changes
)

// EffectLine is one line of what a plan does to the inputs of clusters.
type EffectLine struct {
	Kind       EffectKind
	Text, Note string
	Field      api.FieldChange
}

// EffectLines returns what a plan does to a group of clusters, and whether Flux removes something from them. Lists from which something is
// removed come first.
func EffectLines(group api.EffectGroup) (lines []EffectLine, removes bool) {
	if group.Forgotten {
		lines = append(lines, EffectLine{Kind: EffectForgotten, Note: "forgotten: polls are answered with 404, and Flux keeps what is running"})
	}
	lists := slices.SortedFunc(maps.Keys(group.Effect), func(a, b string) int {
		if byRemoval := boolOrder(removesFrom(group.Effect[b])) - boolOrder(removesFrom(group.Effect[a])); byRemoval != 0 {
			return byRemoval
		}
		if byKind := listOrder(a) - listOrder(b); byKind != 0 {
			return byKind
		}
		return strings.Compare(a, b)
	})
	for _, list := range lists {
		effect := group.Effect[list]
		removes = removes || removesFrom(effect)
		lines = append(lines, EffectLine{Kind: EffectList, Text: list})
		for _, id := range effect.Removed {
			lines = append(lines, EffectLine{Kind: EffectRemoved, Text: id, Note: removalOf(list)})
		}
		for _, change := range effect.Changed {
			changed := EffectLine{Kind: EffectChanged, Text: change.ID}
			if change.Removal {
				changed.Note = replacementOf(list, change.Fields)
			}
			lines = append(lines, changed)
			for _, field := range withoutRepeatedValues(change.Fields) {
				lines = append(lines, EffectLine{Kind: EffectField, Text: FieldName(field.Pointer), Field: field})
			}
		}
		for _, input := range effect.Added {
			id, note := describeInput(input)
			lines = append(lines, EffectLine{Kind: EffectAdded, Text: id, Note: note})
		}
		if effect.Reordered {
			lines = append(lines, EffectLine{Kind: EffectReordered})
		}
	}
	return lines, removes
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

func removesFrom(effect api.EndpointEffect) bool {
	return len(effect.Removed) > 0 || slices.ContainsFunc(effect.Changed, func(ch api.InputChange) bool { return ch.Removal })
}

// The lists that are compiled in, in the order in which they are shown; those of resource types follow.
const (
	listComponents   = "platform-components"
	listNamespaces   = "namespaces"
	listRoleBindings = "rolebindings"
)

func listOrder(list string) int {
	if at := slices.Index([]string{listComponents, listNamespaces, listRoleBindings}, list); at >= 0 {
		return at
	}
	return 3
}

// removalOf is the consequence of removing an input from a list.
func removalOf(list string) string {
	switch list {
	case listComponents:
		return "Flux uninstalls it"
	case listNamespaces:
		return "Flux deletes it with everything in it, unless its deletion policy is orphan"
	case listRoleBindings:
		return "Flux revokes the role"
	}
	return "Flux deletes what was made of it"
}

// replacementOf is the consequence of a change for the objects of an input that stays in its list.
func replacementOf(list string, fields []api.FieldChange) string {
	switch list {
	case listComponents:
	case listRoleBindings:
		return "Flux revokes the role in the previous namespace"
	default:
		return "Flux deletes its object and creates one of another name"
	}
	for _, f := range fields {
		if slices.Contains([]string{"/enabled", "/type", "/release_name", "/target_namespace", "/override_namespace"}, f.Pointer) {
			return "Flux uninstalls it"
		}
	}
	return "Flux removes what only the old path has"
}

// withoutRepeatedValues leaves out changes of values that only repeat changes of patches.
func withoutRepeatedValues(fields []api.FieldChange) []api.FieldChange {
	under := func(f api.FieldChange, name string) bool {
		return f.Pointer == "/"+name || strings.HasPrefix(f.Pointer, "/"+name+"/")
	}
	if !slices.ContainsFunc(fields, func(f api.FieldChange) bool { return under(f, "patches") }) {
		return fields
	}
	return slices.DeleteFunc(slices.Clone(fields), func(f api.FieldChange) bool { return under(f, "values") })
}

// FieldName writes a JSON pointer for people: source.oci_tag, patches[ui.color].
func FieldName(pointer string) string {
	steps := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, step := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	for i := range steps[1:] {
		if step := steps[i+1]; strings.ContainsAny(step, ".[]/") || steps[0] == "patches" {
			steps[i+1] = "[" + step + "]"
		} else {
			steps[i+1] = "." + step
		}
	}
	return strings.Join(steps, "")
}

// describeInput returns the id of an input that is new, and its most important fields.
func describeInput(input json.RawMessage) (id, fields string) {
	var in struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Path    string `json:"component_path"`
		Version string `json:"component_version"`
		Source  struct {
			URL string `json:"oci_url"`
			Tag string `json:"oci_tag"`
		} `json:"source"`
		Role string `json:"role"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return string(input), ""
	}
	switch {
	case in.Source.URL != "":
		return in.ID, fmt.Sprintf("%s, %s version %s from %s, tag %s", in.Type, in.Path, in.Version, in.Source.URL, in.Source.Tag)
	case in.Role != "":
		return in.ID, "role " + in.Role
	}
	return in.ID, ""
}

// Removals returns how much a plan has Flux uninstall. Clusters that leave count as one removal each, since the server does not count
// what they have.
func Removals(plan api.Plan) string {
	n := Count(plan.Totals.Removals, "thing")
	if plan.Totals.Leaving > 0 {
		return n + " (clusters that leave a list that is polled, or a protected environment, count as one each)"
	}
	forgets := slices.ContainsFunc(plan.Groups, func(g api.EffectGroup) bool { return g.Forgotten })
	if forgets && slices.ContainsFunc(plan.Changes, func(ch api.ChangeRef) bool { return ch.Kind == "cluster" && ch.Action == "delete" }) {
		n += " (clusters that leave the fleet count as one each)"
	}
	return n
}

// RemovalSentence returns the sentence about what a plan removes from clusters; empty when it removes nothing.
func RemovalSentence(plan api.Plan) string {
	switch t := plan.Totals; {
	case t.Removals > t.Leaving:
		return "Flux would uninstall " + Removals(plan) + "."
	case t.Leaving > 0:
		return Count(t.Leaving, "cluster") + " would leave a list of clusters that is polled, or a protected environment; each counts as one removal."
	}
	return ""
}

// OtherWarnings returns the warnings of a plan without those about failed policies, which its verdicts have, too.
func OtherWarnings(plan api.Plan) []string {
	return slices.DeleteFunc(slices.Clone(plan.Warnings), func(warning string) bool {
		return slices.ContainsFunc(plan.Policies, func(v api.PolicyVerdict) bool {
			return v.Failed && strings.TrimPrefix(warning, "the change would be refused: ") == fmt.Sprintf("policy %q: %s", v.ID, v.Message)
		})
	})
}

// Count returns a number with its noun, which gets an s unless the number is 1: "1 cluster", "2 clusters".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
