package objectidentity

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
)

// Each output of the template is written into the skeleton as its number between these two characters of a private use area.
const (
	open = '\uE000'
	shut = '\uE001'
)

// skeleton is the text of a template with the branches of all conditions one after the other, and a placeholder for each output.
type skeleton struct {
	trees   map[string]*parse.Tree
	text    []byte
	lines   int // that the text has so far
	outputs []value
	vars    []variable
	blocks  []block
	around  []value // values that decide whether the current place is reached
	calls   []string
	steps   int
	loops   int // around the current place
}

type variable struct {
	name string
	value
}

// block is a part of the template that a value controls: from one line of the skeleton to another.
type block struct {
	value
	first, last int
	empty       bool // it writes no text
	presence    bool // it matters only whether the value is empty
}

func (s *skeleton) write(text string) {
	if len(s.text)+len(text) > maxText {
		s.steps = maxSteps // it cannot be resolved
		return
	}
	s.text = append(s.text, text...)
	s.lines += strings.Count(text, "\n")
}

func (s *skeleton) list(list *parse.ListNode, dot value) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		if s.steps++; s.steps >= maxSteps {
			return
		}
		s.node(node, dot)
	}
}

func (s *skeleton) node(node parse.Node, dot value) {
	switch n := node.(type) {
	case *parse.TextNode:
		s.write(string(n.Text))
	case *parse.ActionNode:
		v := s.pipe(n.Pipe, dot)
		if len(n.Pipe.Decl) == 0 {
			s.output(v, indentOf(n.Pipe))
		}
	case *parse.IfNode:
		s.branch(&n.BranchNode, dot, func(value) value { return dot })
	case *parse.WithNode:
		s.branch(&n.BranchNode, dot, func(v value) value { return v })
	case *parse.RangeNode:
		s.branch(&n.BranchNode, dot, func(v value) value { return combined("item", v) })
	case *parse.TemplateNode:
		s.call(n, dot)
	}
}

// output writes a placeholder, on a line of its own where the value begins with one.
func (s *skeleton) output(v value, newLine string) {
	s.write(newLine)
	s.write(string(open) + strconv.Itoa(len(s.outputs)) + string(shut))
	s.outputs = append(s.outputs, v)
}

// indentOf returns the line break and the spaces that sprig's nindent or indent puts before a value.
func indentOf(pipe *parse.PipeNode) string {
	last := pipe.Cmds[len(pipe.Cmds)-1].Args
	name, ok := last[0].(*parse.IdentifierNode)
	if !ok || len(last) < 2 || name.Ident != "nindent" && name.Ident != "indent" {
		return ""
	}
	n, ok := last[1].(*parse.NumberNode)
	if !ok || !n.IsInt || n.Int64 < 0 || n.Int64 > 100 {
		return ""
	}
	text := strings.Repeat(" ", int(n.Int64))
	if name.Ident == "nindent" {
		text = "\n" + text
	}
	return text
}

// branch writes all branches of a condition or loop, whose value controls them.
func (s *skeleton) branch(n *parse.BranchNode, dot value, inside func(value) value) {
	known := len(s.vars)
	condition := s.pipe(n.Pipe, dot)
	before := make([]value, known)
	for i := range before {
		before[i] = s.vars[i].value
	}
	item := inside(condition)
	if n.NodeType == parse.NodeRange {
		for i := known; i < len(s.vars); i++ {
			s.vars[i].value = item
		}
	}
	at, start, first := len(s.blocks), len(s.text), s.lines
	s.blocks = append(s.blocks, block{value: condition, presence: n.NodeType != parse.NodeRange && s.onlyEmpty(n.Pipe, dot)})
	s.around = append(s.around, condition)
	if n.NodeType == parse.NodeRange {
		s.rehearse(n.List, item)
	}
	s.list(n.List, item)
	s.list(n.ElseList, dot)
	s.around = s.around[:len(s.around)-1]
	content := s.text[start:]
	blank := len(content) - len(bytes.TrimLeft(content, " \t\r\n"))
	s.blocks[at].first, s.blocks[at].last = first+bytes.Count(content[:blank], []byte("\n")), s.lines
	s.blocks[at].empty = blank == len(content)
	s.vars = s.vars[:known]
	for i, was := range before { // one of the branches may have set it
		if s.vars[i].source != was.source {
			s.vars[i].value = combined("branch", was, s.vars[i].value, condition)
		}
	}
}

// onlyEmpty reports whether a condition only tests which fields of the input are empty.
func (s *skeleton) onlyEmpty(node parse.Node, dot value) bool {
	switch n := node.(type) {
	case *parse.FieldNode, *parse.ChainNode, *parse.VariableNode:
		return s.operand(n, dot).exact
	case *parse.PipeNode:
		return len(n.Cmds) == 1 && s.onlyEmpty(n.Cmds[0], dot)
	case *parse.CommandNode:
		if len(n.Args) == 1 {
			return s.onlyEmpty(n.Args[0], dot)
		}
		name, ok := n.Args[0].(*parse.IdentifierNode)
		return ok && (name.Ident == "and" || name.Ident == "or" || name.Ident == "not") &&
			!slices.ContainsFunc(n.Args[1:], func(arg parse.Node) bool { return !s.onlyEmpty(arg, dot) })
	}
	return false
}

// rehearse walks the body of a loop only to find the variables that it sets: in the next iteration they have these values.
func (s *skeleton) rehearse(body *parse.ListNode, item value) {
	const deepest = 3
	if s.loops >= deepest {
		return
	}
	text, lines, outputs, blocks, vars := len(s.text), s.lines, len(s.outputs), len(s.blocks), len(s.vars)
	s.loops++
	s.list(body, item)
	s.loops--
	s.text, s.lines, s.outputs, s.blocks, s.vars = s.text[:text], lines, s.outputs[:outputs], s.blocks[:blocks], s.vars[:vars]
}

// receipt is the template that the chart and bootstrap put before the templates of resource types. Its objects follow the
// input, and hold no data.
const receipt = "receipt"

// call writes a template that is called.
func (s *skeleton) call(n *parse.TemplateNode, dot value) {
	arg := value{}
	if n.Pipe != nil {
		arg = s.pipe(n.Pipe, dot)
	}
	tree := s.trees[n.Name]
	if tree == nil || tree.Root == nil {
		if n.Name != receipt {
			s.output(combined(n.String(), arg, value{fields: []string{Whole}}), "")
		}
		return
	}
	if slices.Contains(s.calls, n.Name) {
		s.output(combined(digest(tree.Root.String()), arg, value{fields: []string{Whole}}), "")
		return
	}
	vars := s.vars
	s.vars = []variable{{"$", arg}}
	s.calls = append(s.calls, n.Name)
	s.list(tree.Root, arg)
	s.calls = s.calls[:len(s.calls)-1]
	s.vars = vars
}

// pipe returns the value of a pipeline, and sets the variables that it declares.
func (s *skeleton) pipe(p *parse.PipeNode, dot value) value {
	if p == nil {
		return value{}
	}
	var v value
	for i, cmd := range p.Cmds {
		var piped []value
		if i > 0 {
			piped = []value{v}
		}
		v = s.command(cmd, dot, piped)
	}
	for _, d := range p.Decl {
		s.set(d.Ident[0], v, p.IsAssign)
	}
	return v
}

func (s *skeleton) set(name string, v value, assign bool) {
	if assign {
		for i := len(s.vars) - 1; i >= 0; i-- {
			if s.vars[i].name == name {
				v.source = digest(append([]string{v.source}, sources(s.around)...)...)
				s.vars[i].value = v
				return
			}
		}
	}
	s.vars = append(s.vars, variable{name, v})
}

// sources returns the source digests of values.
func sources(of []value) []string {
	var out []string
	for _, v := range of {
		out = append(out, v.source)
	}
	return out
}

// command returns the value of one command of a pipeline; piped is the result of the previous command.
func (s *skeleton) command(cmd *parse.CommandNode, dot value, piped []value) value {
	name, call := cmd.Args[0].(*parse.IdentifierNode)
	if !call {
		v := s.operand(cmd.Args[0], dot)
		if len(cmd.Args) == 1 && len(piped) == 0 {
			return v
		}
		return combined("call", append(s.operands(cmd.Args, dot), piped...)...)
	}
	if len(cmd.Args) == 1 && len(piped) == 0 {
		return s.operand(name, dot)
	}
	args := append(s.operands(cmd.Args[1:], dot), piped...)
	if v, ok := lookup(name.Ident, cmd.Args[1:], args); ok {
		return v
	}
	return combined(name.Ident, args...)
}

// lookup handles functions that take a value from a map by a literal name.
func lookup(function string, nodes []parse.Node, args []value) (value, bool) {
	text := func(i int) (string, bool) {
		if i >= len(nodes) {
			return "", false
		}
		if n, ok := nodes[i].(*parse.StringNode); ok {
			return n.Text, true
		}
		return "", false
	}
	switch {
	case (function == "get" || function == "index" || function == "hasKey") && len(args) >= 2:
		of := args[0]
		for i := 1; i < len(args); i++ {
			name, ok := text(i)
			if !ok || strings.Contains(name, ".") {
				return value{}, false
			}
			of = of.under(name)
		}
		return combined(function, of), true
	case function == "dig" && len(args) >= 3:
		of := args[len(args)-1]
		for i := range len(args) - 2 {
			name, ok := text(i)
			if !ok || strings.Contains(name, ".") {
				return value{}, false
			}
			of = of.under(name)
		}
		return combined(function, of, args[len(args)-2]), true
	}
	return value{}, false
}

func (s *skeleton) operands(nodes []parse.Node, dot value) []value {
	out := make([]value, len(nodes))
	for i, n := range nodes {
		out[i] = s.operand(n, dot)
	}
	return out
}

func (s *skeleton) operand(node parse.Node, dot value) value {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return dot.under(n.Ident...)
	case *parse.VariableNode:
		for _, v := range slices.Backward(s.vars) {
			if v.name == n.Ident[0] {
				return v.under(n.Ident[1:]...)
			}
		}
	case *parse.ChainNode:
		return s.operand(n.Node, dot).under(n.Field...)
	case *parse.PipeNode:
		return s.pipe(n, dot)
	case *parse.IdentifierNode:
		if n.Ident == "inputs" {
			return value{exact: true, fields: []string{Whole}, source: "inputs"}
		}
	}
	return value{source: node.String()}
}
