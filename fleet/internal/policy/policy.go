// Package policy compiles and evaluates the rules of policies: expressions of the Common Expression Language (CEL) on a change and its
// effect. The variables have declared types, so that a wrong field is an error when the rule is written; rules read nothing else. Read
// [Input] first, then [Compile].
package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
)

const (
	// MaxRuleBytes is the maximum size of a rule.
	MaxRuleBytes = 8 << 10
	// MaxMessageBytes is the maximum size of the expression of a message.
	MaxMessageBytes = 2 << 10
	// MaxMessageCharacters is the size to which the message that a rule makes is shortened.
	MaxMessageCharacters = 1024
)

// Program is a compiled rule with its message. It is immutable.
type Program struct {
	rule, message *expression // message is nil if the policy has none
	// ReadsRecentCount: the rule reads recent.count.
	ReadsRecentCount bool
}

// expression is one compiled expression.
type expression struct {
	env   *cel.Env
	ast   *cel.Ast
	loops map[int64]clusterFields
	idle  sync.Pool // of *meteredProgram
}

// Problem is a mistake in a rule or a message.
type Problem struct {
	Field        string // rule or message
	Line, Column int    // of the mistake, from 1; 0: the whole expression
	Detail       string
}

// RuleErrors is the error for a rule that does not compile. It has at least one problem.
type RuleErrors []Problem

func (p RuleErrors) Error() string {
	texts := make([]string, len(p))
	for i, one := range p {
		texts[i] = fmt.Sprintf("%s: %s", one.Field, one)
	}
	return strings.Join(texts, "; ")
}

// String returns the place and the detail.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Detail
	}
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Detail)
}

// Verdict is the result of a rule.
type Verdict struct {
	Failed  bool   // the rule is false
	Message string // of a failed rule; empty: the policy has none
}

// Compile checks a rule, an expression that is true if the change is permitted, and the expression of its message, which may be empty.
// The error is [RuleErrors]. An expression that may cost more than an evaluation may is refused.
func Compile(rule, message string) (*Program, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	var p Program
	var problems RuleErrors
	p.rule, problems = compile(env, "rule", rule, MaxRuleBytes, cel.BoolType)
	if message != "" {
		var others RuleErrors
		p.message, others = compile(env, "message", message, MaxMessageBytes, cel.StringType)
		problems = append(problems, others...)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	p.ReadsRecentCount = readsRecentCount(p.rule.ast.NativeRep().Expr())
	return &p, nil
}

// maxProblems is the maximum number of reported problems of an expression.
const maxProblems = 10

// compile compiles one expression with a result of a type.
func compile(env *cel.Env, field, text string, limit int, want *cel.Type) (compiled *expression, problems RuleErrors) {
	whole := func(format string, args ...any) RuleErrors {
		return RuleErrors{{Field: field, Detail: fmt.Sprintf(format, args...)}}
	}
	defer func() { // a mistake in the library, or the end of its evaluation of constants
		if r := recover(); r != nil {
			compiled, problems = nil, whole("cannot be compiled: %v", r)
		}
	}()
	switch {
	case strings.TrimSpace(text) == "":
		return nil, whole("is required")
	case len(text) > limit:
		return nil, whole("has %d bytes; at most %d are possible", len(text), limit)
	case !utf8.ValidString(text):
		return nil, whole("is not valid UTF-8")
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, problemsOf(field, issues.Errors())
	}
	if got := ast.OutputType(); !got.IsExactType(want) {
		return nil, whole("the result is %s; it must be %s", got, want)
	}
	cost, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return nil, whole("its cost cannot be estimated: %v", err)
	}
	if cost.Max > maxEstimate {
		return nil, whole("may cost too much on a large fleet: %s; at most %d are possible. Nest fewer lists, or compare before you search in texts", steps(cost.Max), maxEstimate)
	}
	if n := countConstants(ast.NativeRep().Expr()); n > maxConstants {
		return nil, whole("has %d constants as operands of && and ||; at most %d are possible", n, maxConstants)
	}
	e := &expression{env: env, ast: ast, loops: distinctLoops(ast.NativeRep().Expr())}
	program, err := e.newProgram()
	if err != nil {
		return nil, whole("%v", err)
	}
	e.idle.Put(program)
	return e, nil
}

func steps(n uint64) string {
	if n > 1e15 {
		return "no limit is known"
	}
	return fmt.Sprintf("%d steps", n)
}

func problemsOf(field string, found []*common.Error) RuleErrors {
	problems := make(RuleErrors, 0, len(found))
	for _, e := range found[:min(len(found), maxProblems)] {
		p := Problem{Field: field, Detail: plainText(e.Message)}
		if e.Location != nil && e.Location.Line() > 0 {
			p.Line, p.Column = e.Location.Line(), e.Location.Column()+1
		}
		problems = append(problems, p)
	}
	if len(problems) == 0 {
		problems = RuleErrors{{Field: field, Detail: "does not compile"}}
	}
	return problems
}

// environment returns the declarations of all rules.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := append(declarations(), functions()...)
	return cel.NewCustomEnv(append(options, limits()...)...)
})

// Eval evaluates the rule on a change, and its message if the rule fails. It spends steps of the budget. An error means that there is no
// result: the rule cannot be evaluated on this change, it takes too many steps, or the context has ended.
func (p *Program) Eval(ctx context.Context, in *Input, budget *Budget) (Verdict, error) {
	out, err := p.rule.evaluate(ctx, in, budget)
	if err != nil {
		return Verdict{}, err
	}
	holds, ok := out.(types.Bool)
	if !ok {
		return Verdict{}, fmt.Errorf("the result is %s, not bool", out.Type().TypeName())
	}
	if bool(holds) || p.message == nil {
		return Verdict{Failed: !bool(holds)}, nil
	}
	out, err = p.message.evaluate(ctx, in, budget)
	if err != nil {
		return Verdict{}, fmt.Errorf("its message: %w", err)
	}
	text, ok := out.(types.String)
	if !ok {
		return Verdict{}, errors.New("its message is not a string")
	}
	return Verdict{true, plainText(string(text))}, nil
}

// plainText returns a text in one line of limited length.
func plainText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if runes := []rune(text); len(runes) > MaxMessageCharacters {
		text = string(runes[:MaxMessageCharacters-1]) + "…"
	}
	return strings.TrimSpace(text)
}
