package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// maxSafeInteger is 2^53. Flux Operator reads numbers as 64-bit floats, which cannot tell larger integers apart.
const maxSafeInteger = 1 << 53

// overlayPatches is the cluster's patches of a component over those of the catalog: per path, the cluster's win.
func overlayPatches(catalog, cluster api.PatchValues) api.PatchValues {
	merged := make(api.PatchValues, len(catalog)+len(cluster))
	maps.Copy(merged, catalog)
	maps.Copy(merged, cluster)
	return merged
}

// expand turns patches of a helm component into the nested values they mean. The problems' pointers are relative to
// the patches object. Paths are taken in sorted order, so the result is the same for the same patches.
func expand(patches api.PatchValues) (map[string]any, []Problem) {
	root, problems := plant(patches)
	if len(problems) > 0 {
		return nil, problems
	}
	values, _ := root.value().(map[string]any)
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}

// plant puts patches into a tree. That is all there is to checking them: the values need not be made.
func plant(patches api.PatchValues) (root *node, problems []Problem) {
	root = &node{}
	for _, path := range sortedKeys(patches) {
		steps, err := parsePath(path)
		if err != nil {
			problems = append(problems, Problem{Pointer: pointer(path), Detail: err.Error()})
			continue
		}
		value, err := typed(patches[path])
		if err != nil {
			problems = append(problems, Problem{Pointer: pointer(path), Detail: err.Error()})
			continue
		}
		if other, clash := root.insert(steps, path, value); clash {
			problems = append(problems, Problem{Pointer: pointer(path), Detail: fmt.Sprintf("contradicts the path %q: one of them would overwrite the other", other)})
		}
	}
	if n := root.slots(); n > maxListIndex+1 {
		problems = append(problems, Problem{Detail: fmt.Sprintf("the list indices call for lists of %d entries in all; at most %d are possible", n, maxListIndex+1)})
	}
	return root, problems
}

// node is a values tree while it is built: a leaf when path is set, else a map or a list by its first child.
type node struct {
	path  string // of the patch that set this leaf, or the first one below
	leaf  bool
	val   any
	names map[string]*node
	items map[int]*node
}

// insert adds a leaf. When it cannot stand beside a path that is there already, that path is returned.
func (n *node) insert(steps []step, path string, value any) (other string, clash bool) {
	if n.leaf {
		return n.path, true
	}
	if len(steps) == 0 {
		if n.names != nil || n.items != nil {
			return n.path, true
		}
		n.leaf, n.path, n.val = true, path, value
		return "", false
	}
	if n.path == "" {
		n.path = path
	}
	s := steps[0]
	if s.isIndex() {
		if n.names != nil {
			return n.path, true
		}
		if n.items == nil {
			n.items = map[int]*node{}
		}
		child := n.items[s.index]
		if child == nil {
			child = &node{}
			n.items[s.index] = child
		}
		return child.insert(steps[1:], path, value)
	}
	if n.items != nil {
		return n.path, true
	}
	if n.names == nil {
		n.names = map[string]*node{}
	}
	child := n.names[s.name]
	if child == nil {
		child = &node{}
		n.names[s.name] = child
	}
	return child.insert(steps[1:], path, value)
}

// slots is how many entries the lists of the tree have in all, gaps included.
func (n *node) slots() int {
	total, last := 0, -1
	for i, child := range n.items {
		last = max(last, i)
		total += child.slots()
	}
	for _, child := range n.names {
		total += child.slots()
	}
	return total + last + 1
}

func (n *node) value() any {
	switch {
	case n.leaf:
		return n.val
	case n.items != nil:
		last := 0
		for i := range n.items {
			last = max(last, i)
		}
		items := make([]any, last+1) // a gap is null, as Helm has it
		for i, child := range n.items {
			items[i] = child.value()
		}
		return items
	case n.names != nil:
		m := make(map[string]any, len(n.names))
		for name, child := range n.names {
			m[name] = child.value()
		}
		return m
	}
	return nil
}

// typed gives a patch's value the type it has in the chart. A string is typed as `helm --set` types it; one that is
// wrapped in quotes is the string between them, as in Flux's targetPath. Everything else passes through.
func typed(raw json.RawMessage) (any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, fmt.Errorf("null is not a value; remove the path instead")
	}
	if raw[0] != '"' {
		return raw, nil
	}
	s := string(raw[1:max(1, len(raw)-1)]) // what is between the quotes, nearly always as it stands
	if !plain(s) || len(raw) != len(s)+2 || raw[len(raw)-1] != '"' {
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("not a JSON string")
		}
	}
	if inner, ok := unquote(s); ok {
		return inner, nil
	}
	switch {
	case strings.EqualFold(s, "true"):
		return true, nil
	case strings.EqualFold(s, "false"):
		return false, nil
	case strings.EqualFold(s, "null"):
		return nil, nil
	case s == "0":
		return int64(0), nil
	case s == "" || s[0] == '0':
		return s, nil
	}
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return s, nil //nolint:nilerr // not an integer: it stays the string it is
	}
	if i > maxSafeInteger || i < -maxSafeInteger {
		return nil, fmt.Errorf(`would become an integer above 2^53, which Flux cannot carry; wrap it in quotes ("\"%s\"") to keep it a string`, s)
	}
	return i, nil
}

// unquote strips one pair of single or double quotes around s.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != s[len(s)-1] || (s[0] != '"' && s[0] != '\'') {
		return s, false
	}
	return s[1 : len(s)-1], true
}

var substitutionName = regexp.MustCompile(`^[_A-Za-z][_A-Za-z0-9]*$`)

// substitutions are the patches of a kustomize component, as Flux's postBuild.substitute takes them: variable names
// and strings. Substitution is textual and drops the author's quotes, so a value must be one line that YAML reads as
// the same scalar with or without quotes around it.
func substitutions(patches api.PatchValues) (map[string]string, []Problem) {
	var problems []Problem
	out := make(map[string]string, len(patches))
	for _, name := range sortedKeys(patches) {
		if !substitutionName.MatchString(name) {
			problems = append(problems, Problem{Pointer: pointer(name), Detail: "a kustomize component's patches are substitution variables: letters, digits and underscores, not starting with a digit"})
			continue
		}
		s, err := scalar(patches[name])
		if err == nil {
			err = plainScalar(s)
		}
		if err != nil {
			problems = append(problems, Problem{Pointer: pointer(name), Detail: err.Error()})
			continue
		}
		out[name] = s
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}

// scalar is a JSON string, number or boolean as the text it is.
func scalar(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", fmt.Errorf("null is not a value; remove the variable instead")
	case raw[0] == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", fmt.Errorf("not a JSON string")
		}
		return s, nil
	case raw[0] == '{' || raw[0] == '[':
		return "", fmt.Errorf("a kustomize component's values are strings, numbers or booleans")
	}
	return string(raw), nil
}

func plainScalar(s string) error {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return fmt.Errorf("a substitution must be one line without control characters")
		}
	}
	switch {
	case s == "":
		return nil
	case strings.ContainsAny(s, "\"'\\$`"):
		return fmt.Errorf("a substitution must not contain quotes, backslashes, backquotes or $")
	case strings.Contains(s, ": ") || strings.HasSuffix(s, ":"):
		return fmt.Errorf(`a substitution must not contain ": " or end with ":": YAML would read a mapping`)
	case strings.Contains(s, " #"):
		return fmt.Errorf(`a substitution must not contain " #": YAML would read a comment`)
	case strings.ContainsRune(",[]{}#&*!|>%@", rune(s[0])):
		return fmt.Errorf("a substitution must not start with %q: it means something in YAML", s[0])
	case (s[0] == '-' || s[0] == '?' || s[0] == ':') && (len(s) == 1 || s[1] == ' '):
		return fmt.Errorf("a substitution must not start with %q and a space: it means something in YAML", s[0])
	case strings.HasPrefix(s, "---") || strings.HasPrefix(s, "..."):
		return fmt.Errorf("a substitution must not start with --- or ...: they mean something in YAML")
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("a substitution must not start or end with a space")
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
