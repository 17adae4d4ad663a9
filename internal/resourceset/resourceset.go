// Package resourceset renders ResourceSets as Flux Operator does, without a cluster: from their manifests and the inputs of their
// providers to Kubernetes objects. It refuses features that it does not support. Templates are untrusted input, so each execution
// has a budget: a template that loops, recurses or grows its values without end fails instead of exhausting a processor or the
// memory.
//
//	manifests ── Read ──> Set ── Sources: names of the providers
//	                       │                    │ poll
//	                       │                    v
//	                       └── Render ── inputs with defaults, provider and numbers as in Flux
//	                                            │ template, for each input
//	                                            v
//	         Rendered <── labels and common metadata ── Object
//
// Reading order: resourceset.go (Parse, Execute, and the calls that Parse adds for accounting), functions.go (the
// functions and their costs), aliases.go and objects.go (objects in YAML), budget.go (of several executions), set.go, type_set.go
// (the objects of a resource type from shipped ones).
package resourceset

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

// Limits bound one execution. The zero value means [Default].
type Limits struct {
	// Units bounds the work. One unit is about one value visited, or 64 bytes of text.
	Units int
	// Bytes bounds the output and each intermediate text.
	Bytes int
	// Stop is called every few thousand units. Its error ends the execution. May be nil.
	Stop func() error
	// Used receives the units spent. May be nil.
	Used *int
	// Reversed returns the results of `keys` and `values` in descending order of the keys, not in ascending order. Flux Operator
	// returns them in any order.
	Reversed bool
}

// Default applies to limits that are not set.
var Default = Limits{Units: 1_000_000, Bytes: 1 << 20}

// ErrBudget is wrapped by the error of an execution that exceeds its limits.
var ErrBudget = errors.New("the template does more work than is allowed")

const (
	maxItems  = 100_000 // in a list that a function returns
	maxDepth  = 200     // of nested values; refuses a value that contains itself
	maxNested = 500     // nested template calls
	stepName  = "resourceset_step"
	enterName = "resourceset_enter"
	leaveName = "resourceset_leave"
	outName   = "resourceset_out"
)

// Template is a parsed resourcesTemplate. It may be executed any number of times, also concurrently.
type Template struct {
	parsed *template.Template
}

// Parse parses a resourcesTemplate with Flux Operator's delimiters and functions.
func Parse(text string) (*Template, error) {
	t, err := template.New("resourcesTemplate").Delims("<<", ">>").Option("missingkey=error").Funcs(declared()).Parse(text)
	if err != nil {
		return nil, err
	}
	for _, part := range t.Templates() {
		if part.Tree == nil || part.Root == nil {
			continue
		}
		instrument(part.Root)
		part.Root.Nodes = append(append([]parse.Node{call(enterName)}, part.Root.Nodes...), call(leaveName))
	}
	return &Template{t}, nil
}

// Execute renders the template for one input. Functions such as `set` may modify the input.
func (t *Template) Execute(input map[string]any, limits Limits) (string, error) {
	if limits.Units == 0 {
		limits.Units = Default.Units
	}
	if limits.Bytes == 0 {
		limits.Bytes = Default.Bytes
	}
	run, err := t.parsed.Clone()
	if err != nil {
		return "", err
	}
	b := &budget{Limits: limits}
	var out strings.Builder
	err = run.Funcs(b.functions(input)).Execute(&limitedWriter{&out, b}, nil)
	if limits.Used != nil {
		*limits.Used = b.used
	}
	if b.err != nil { // the template package wraps it in a longer text that is no clearer
		return "", b.err
	}
	return out.String(), err
}

// instrument adds the calls that charge the budget: at the start of each range body, and around each printed value. It returns the size
// of the text.
func instrument(list *parse.ListNode) (size int) {
	if list == nil {
		return 0
	}
	branch := func(b *parse.BranchNode) (body int) {
		body = instrument(b.List)
		size += len(b.Pipe.String()) + body + instrument(b.ElseList)
		return body
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.ActionNode:
			size += len(n.String())
			if len(n.Pipe.Decl) == 0 {
				n.Pipe.Cmds = append(n.Pipe.Cmds, command(outName))
			}
		case *parse.IfNode:
			branch(&n.BranchNode)
		case *parse.WithNode:
			branch(&n.BranchNode)
		case *parse.RangeNode:
			body := branch(&n.BranchNode)
			n.List.Nodes = append([]parse.Node{call(stepName, body)}, n.List.Nodes...)
		default:
			size += len(node.String())
		}
	}
	return size
}

func command(name string, args ...int) *parse.CommandNode {
	c := &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier(name)}}
	for _, n := range args {
		c.Args = append(c.Args, &parse.NumberNode{NodeType: parse.NodeNumber, IsInt: true, Int64: int64(n), Text: fmt.Sprint(n)})
	}
	return c
}

// call returns a call whose result is assigned to a variable, which is cheaper than to print nothing.
func call(name string, args ...int) parse.Node {
	unused := &parse.VariableNode{NodeType: parse.NodeVariable, Ident: []string{"$_"}}
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Decl: []*parse.VariableNode{unused}, Cmds: []*parse.CommandNode{command(name, args...)}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pipe: pipe}
}

// limitedWriter fails when the output exceeds the limit.
type limitedWriter struct {
	to     *strings.Builder
	budget *budget
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.to.Len()+len(p) > w.budget.Bytes {
		return 0, w.budget.exceeded("it renders more than %d bytes", w.budget.Bytes)
	}
	return w.to.Write(p)
}

// documents splits a stream of YAML documents at the lines that start with ---.
func documents(text string) []string {
	var docs []string
	var doc strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "---"); ok {
			if rest = strings.TrimSpace(rest); rest == "" || rest[0] == '#' {
				docs = append(docs, doc.String())
				doc.Reset()
				continue
			}
		}
		doc.WriteString(line)
	}
	return append(docs, doc.String())
}
