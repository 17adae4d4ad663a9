package policy

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// A change usually has the same effect on thousands of clusters. The macros all() and exists() have the same result on values that are
// equal as on one of them, so they are evaluated on one of the clusters that have equal values in all fields that they read.

// clusterFields are the fields of clusters that a loop reads.
type clusterFields struct {
	removals, environment, before, after bool // before and after: their environments
	lists                                [len(listNames)]bool
}

// listNames are the lists by their index in [clusterFields].
var listNames = [...]ListName{ListComponents, ListNamespaces, ListRoleBindings, ListResources}

// distinctKey has the values of the fields that are read; the others are empty.
type distinctKey struct {
	removals                   int
	environment, before, after string
	lists                      [len(listNames)]string
}

// clusterList are the clusters of an effect as rules read them.
type clusterList struct {
	traits.Lister
	of *Effect
}

// distinct returns one of the clusters that have equal values in some fields, and the steps that this takes, if it was not known: for each
// cluster, each list and each entry.
func (e *Effect) distinct(read clusterFields) (list ref.Val, steps uint64, err error) {
	if list := e.distinctLists[read]; list != nil {
		return list, 0, nil
	}
	var out []*Cluster
	var last distinctKey // most clusters are equal to the one before
	seen := map[distinctKey]bool{}
	for _, c := range e.Clusters {
		key, entries, err := e.keyOf(c, read)
		if err != nil {
			return nil, 0, err
		}
		steps += 2 + entries
		if len(out) == 0 || key != last && !seen[key] {
			seen[key] = true
			out = append(out, c)
		}
		last = key
	}
	if e.distinctLists == nil {
		e.distinctLists = map[clusterFields]ref.Val{}
	}
	e.distinctLists[read] = listOf(clusterType, out)
	return e.distinctLists[read], steps, nil
}

func (e *Effect) keyOf(c *Cluster, read clusterFields) (key distinctKey, entries uint64, err error) {
	if read.removals {
		key.removals = c.Removals
	}
	if read.environment {
		key.environment = c.latest().Environment
	}
	if read.before && c.Before != nil {
		key.before = c.Before.Environment
	}
	if read.after && c.After != nil {
		key.after = c.After.Environment
	}
	for i, name := range listNames {
		if read.lists[i] {
			text, n, err := e.entriesOf(c.Lists, name)
			if err != nil {
				return key, 0, err
			}
			key.lists[i] = text
			entries += 1 + n
		}
	}
	return key, entries, nil
}

// entriesOf returns a text that is equal for clusters with the same entries in a list, and their number.
func (e *Effect) entriesOf(l *Lists, name ListName) (text string, n uint64, err error) {
	if l == nil {
		return "", 0, nil
	}
	if err := l.fill(name); err != nil {
		return "", 0, err
	}
	var key []byte
	add := func(entry any) {
		n++
		id, known := e.entries[entry]
		if !known {
			if e.entries == nil {
				e.entries = map[any]uint64{}
			}
			id = uint64(len(e.entries))
			e.entries[entry] = id
		}
		key = binary.AppendUvarint(key, id)
	}
	switch name {
	case ListComponents:
		addAll[api.FluxPlatformComponent](l.Components, add)
	case ListNamespaces:
		addAll[api.FluxNamespace](l.Namespaces, add)
	case ListRoleBindings:
		addAll[api.FluxRoleBinding](l.RoleBindings, add)
	case ListResources:
		for _, of := range slices.Sorted(maps.Keys(l.Resources)) { // no entry is of two types
			addAll(l.Resources[of], add)
		}
	}
	return string(key), n, nil
}

func addAll[T any](entries []*Entry[T], add func(any)) {
	for _, e := range entries {
		add(e)
	}
}

// distinctLoops returns the fields that the loops over all clusters read, if they are loops of all() or exists() and read nothing else of
// a cluster, by the id of the expression "effect" of the list.
func distinctLoops(e ast.Expr) map[int64]clusterFields {
	out := map[int64]clusterFields{}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		loop := e.AsComprehension()
		of, path := selected(loop.IterRange())
		if of.Kind() != ast.IdentKind || of.AsIdent() != "effect" || !slices.Equal(path, []string{"clusters"}) || loop.HasIterVar2() {
			return
		}
		step, result := loop.LoopStep(), loop.Result()
		if step.Kind() != ast.CallKind || len(step.AsCall().Args()) != 2 || result.Kind() != ast.IdentKind {
			return
		}
		if function := step.AsCall().FunctionName(); function != operators.LogicalAnd && function != operators.LogicalOr {
			return
		}
		var read clusterFields
		if read.of(step.AsCall().Args()[1], loop.IterVar()) {
			out[of.ID()] = read
		}
	}))
	return out
}

// selected returns the expression of which fields are selected, and their names.
func selected(e ast.Expr) (of ast.Expr, path []string) {
	for ; e.Kind() == ast.SelectKind; e = e.AsSelect().Operand() {
		path = append([]string{e.AsSelect().FieldName()}, path...)
	}
	return e, path
}

// of adds the fields of a variable that an expression reads. It reports whether the expression reads only fields that can be compared.
func (f *clusterFields) of(e ast.Expr, variable string) bool {
	of, path := selected(e)
	if of.Kind() == ast.IdentKind {
		return of.AsIdent() != variable || f.add(path)
	}
	var parts []ast.Expr
	switch of.Kind() {
	case ast.LiteralKind:
	case ast.CallKind:
		parts = of.AsCall().Args()
		if of.AsCall().IsMemberFunction() {
			parts = append(slices.Clone(parts), of.AsCall().Target())
		}
	case ast.ListKind:
		parts = of.AsList().Elements()
	case ast.MapKind:
		for _, entry := range of.AsMap().Entries() {
			parts = append(parts, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.ComprehensionKind:
		loop := of.AsComprehension()
		if loop.IterVar() == variable || loop.IterVar2() == variable || loop.AccuVar() == variable {
			return false // another variable with the same name
		}
		parts = []ast.Expr{loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()}
	default:
		return false
	}
	return !slices.ContainsFunc(parts, func(e ast.Expr) bool { return !f.of(e, variable) })
}

// add adds a field. It reports whether its values can be compared.
func (f *clusterFields) add(path []string) bool {
	switch {
	case len(path) == 0:
		return false
	case path[0] == "removals":
		f.removals = true
	case path[0] == "environment":
		f.environment = true
	case len(path) > 1 && path[0] == "before" && path[1] == "environment":
		f.before = true
	case len(path) > 1 && path[0] == "after" && path[1] == "environment":
		f.after = true
	case len(path) > 1 && path[0] == "lists":
		i := slices.Index(listNames[:], ListName(path[1]))
		if i < 0 {
			return false
		}
		f.lists[i] = true
	default:
		return false
	}
	return true
}
