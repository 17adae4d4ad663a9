// Package resourceset executes the templates of ResourceSets as Flux Operator does, without a cluster. Templates come from
// outside, so each execution has a budget: a template that loops, recurses or grows its values without end fails instead of
// occupying a processor or the memory.
package resourceset

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

// Limits bound one execution. The zero value stands for [Default].
type Limits struct {
	// Units is the work that an execution may do. A unit is about one value that is looked at, or 64 bytes of text.
	Units int
	// Bytes is the size of the output, and of each text that is computed on the way.
	Bytes int
	// Stop is asked every few thousand units. Its error ends the execution. Nil never does.
	Stop func() error
	// Used receives the units that the execution took. May be nil.
	Used *int
}

// Default are the limits that apply where none are given.
var Default = Limits{Units: 1_000_000, Bytes: 1 << 20}

// ErrBudget is wrapped by the error of an execution that exceeds its limits.
var ErrBudget = errors.New("the template does more work than is allowed")

const (
	maxItems  = 100_000 // of a list that a function computes
	maxDepth  = 200     // of nested values; a value that contains itself is deeper
	maxNested = 500     // templates that are being executed within one another
	stepName  = "resourceset_step"
	enterName = "resourceset_enter"
	leaveName = "resourceset_leave"
	outName   = "resourceset_out"
)

// Template is a parsed resourcesTemplate. It may be executed any number of times, also at the same time.
type Template struct {
	parsed *template.Template
}

// Parse reads a resourcesTemplate: the delimiters and functions are Flux Operator's.
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

// Execute is the text that the template makes of one input. Functions such as `set` may change the input.
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
	if b.err != nil { // what the template package makes of it is longer and no clearer
		return "", b.err
	}
	return out.String(), err
}

// instrument adds the calls that account for work: at the beginning of everything that may be repeated, and around each value
// that is printed.
func instrument(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 {
				n.Pipe.Cmds = append(n.Pipe.Cmds, command(outName))
			}
		case *parse.IfNode:
			instrument(n.List)
			instrument(n.ElseList)
		case *parse.WithNode:
			instrument(n.List)
			instrument(n.ElseList)
		case *parse.RangeNode:
			instrument(n.List)
			instrument(n.ElseList)
			n.List.Nodes = append([]parse.Node{call(stepName, len(n.List.String()))}, n.List.Nodes...)
		}
	}
}

func command(name string, args ...int) *parse.CommandNode {
	c := &parse.CommandNode{NodeType: parse.NodeCommand, Args: []parse.Node{parse.NewIdentifier(name)}}
	for _, n := range args {
		c.Args = append(c.Args, &parse.NumberNode{NodeType: parse.NodeNumber, IsInt: true, Int64: int64(n), Text: fmt.Sprint(n)})
	}
	return c
}

func call(name string, args ...int) parse.Node {
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Cmds: []*parse.CommandNode{command(name, args...)}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pipe: pipe}
}

// limitedWriter refuses more output than is allowed.
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

// Documents cuts a stream of YAML documents at the lines that begin one.
func Documents(text string) []string {
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
