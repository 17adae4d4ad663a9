package helmvalues

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Expand returns the nested values that the patches of a helm component stand for. The problems' pointers are relative to
// the patches object. Paths are processed in sorted order, so that the result is deterministic.
func Expand(patches map[string]json.RawMessage) (map[string]any, []jsontext.Problem) {
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

// Check returns the problems of the patches of a helm component.
func Check(patches map[string]json.RawMessage) []jsontext.Problem {
	_, problems := plant(patches)
	return problems
}

// plant inserts patches into a tree. This finds all problems, so checking needs no values.
func plant(patches map[string]json.RawMessage) (root *node, problems []jsontext.Problem) {
	root = &node{}
	for _, path := range slices.Sorted(maps.Keys(patches)) {
		steps, err := parsePath(path)
		if err != nil {
			problems = append(problems, jsontext.Problem{Pointer: jsontext.Pointer(path), Detail: err.Error()})
			continue
		}
		value, err := typed(patches[path])
		if err != nil {
			problems = append(problems, jsontext.Problem{Pointer: jsontext.Pointer(path), Detail: err.Error()})
			continue
		}
		if other, clash := root.insert(steps, path, value); clash {
			problems = append(problems, jsontext.Problem{Pointer: jsontext.Pointer(path), Detail: fmt.Sprintf("contradicts the path %q: one of them would overwrite the other", other), Other: other})
		}
	}
	if n := root.slots(); n > maxListIndex+1 {
		problems = append(problems, jsontext.Problem{Detail: fmt.Sprintf("the list indices call for lists of %d entries in all; at most %d are possible", n, maxListIndex+1)})
	}
	return root, problems
}

// node is a node of a values tree under construction: a leaf, a map or a list, as its first child decides.
type node struct {
	path     string // of the patch that set this leaf, or the first one below
	leaf     bool
	val      any
	children []child
	index    map[step]*node // of the children, if there are many
}

type child struct {
	at step
	*node
}

// fewChildren is the number of children up to which a linear search beats an index.
const fewChildren = 8

// insert adds a leaf. If an existing path excludes it, insert returns that path.
func (n *node) insert(steps []step, path string, value any) (other string, clash bool) {
	if n.leaf {
		return n.path, true
	}
	if len(steps) == 0 {
		if n.children != nil {
			return n.path, true
		}
		n.leaf, n.path, n.val = true, path, value
		return "", false
	}
	if n.path == "" {
		n.path = path
	}
	if n.children != nil && n.isList() != steps[0].isIndex() {
		return n.path, true
	}
	return n.child(steps[0]).insert(steps[1:], path, value)
}

// isList reports whether a node with children is a list.
func (n *node) isList() bool { return n.children[0].at.isIndex() }

// child returns the child at a step, and creates it if necessary.
func (n *node) child(at step) *node {
	if n.index != nil {
		if found := n.index[at]; found != nil {
			return found
		}
	} else {
		for _, c := range n.children {
			if c.at == at {
				return c.node
			}
		}
	}
	made := child{at, &node{}}
	n.children = append(n.children, made)
	switch {
	case n.index != nil:
		n.index[at] = made.node
	case len(n.children) > fewChildren:
		n.index = make(map[step]*node, len(n.children))
		for _, c := range n.children {
			n.index[c.at] = c.node
		}
	}
	return made.node
}

// slots returns the total length of the lists in the tree, gaps included.
func (n *node) slots() int {
	total, last := 0, -1
	for _, c := range n.children {
		last = max(last, c.at.index)
		total += c.slots()
	}
	return total + last + 1
}

// value converts a node to nested maps and lists.
func (n *node) value() any {
	switch {
	case n.leaf:
		return n.val
	case n.children == nil:
		return nil
	case n.isList():
		last := 0
		for _, c := range n.children {
			last = max(last, c.at.index)
		}
		items := make([]any, last+1) // a gap is null, as in Helm
		for _, c := range n.children {
			items[c.at.index] = c.value()
		}
		return items
	}
	m := make(map[string]any, len(n.children))
	for _, c := range n.children {
		m[c.at.name] = c.value()
	}
	return m
}

// typed returns a patch's value with the type that it has in the chart. A string is typed as `helm --set` types it; a quoted
// string is the string between the quotes, as in Flux's targetPath. All other values are unchanged.
func typed(raw json.RawMessage) (any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, fmt.Errorf("null is not a value; remove the path instead")
	}
	if raw[0] != '"' {
		return raw, nil
	}
	s := string(raw[1:max(1, len(raw)-1)]) // the text between the quotes, which rarely needs decoding
	if !jsontext.Plain(s) || len(raw) != len(s)+2 || raw[len(raw)-1] != '"' {
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
		return s, nil //nolint:nilerr // not an integer: it remains a string
	}
	if i > jsontext.MaxSafeInteger || i < -jsontext.MaxSafeInteger {
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
