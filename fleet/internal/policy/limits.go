package policy

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

const (
	// MaxCost is the maximum number of steps of one expression on a change. A step takes about 100 ns, at most about 200 ns.
	MaxCost = 5_000_000
	// maxEstimate is the maximum number of steps of an expression when it is written, on a change of all clusters of a large fleet. It
	// is higher, since few changes reach all sizes that the estimate assumes.
	maxEstimate = 100_000_000
)

// Sizes of values for the estimate of the cost. Evaluations count what they find, so a larger value is no risk.
const (
	expectedClusters = 10_000
	expectedEntries  = 8 // of other lists and maps
	expectedText     = 64
)

const (
	maxDepth         = 64 // of an expression
	maxNesting       = 4  // of loops in loops
	maxNodes         = 4096
	maxRegexProgram  = 500
	maxConstants     = 32 // operands of && and ||
	maxParseRecovery = 10
)

// Budget limits the steps of several policies on one change. The zero value permits none; see [NewBudget].
type Budget struct{ left uint64 }

// NewBudget returns the budget of the policies that refuse a change.
func NewBudget() *Budget { return &Budget{2 * MaxCost} }

// NewWarningBudget returns the budget of those that warn.
func NewWarningBudget() *Budget { return &Budget{MaxCost} }

// limits are the options that limit expressions.
func limits() []cel.EnvOption {
	return []cel.EnvOption{
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserErrorRecoveryLimit(maxParseRecovery),
		cel.ParserExpressionSizeLimit(MaxRuleBytes),
		cel.ExpressionNodeLimit(maxNodes),
		cel.ExpressionNestingDepthLimit(maxDepth),
		cel.ExtendedValidations(),
		cel.ASTValidators(cel.ValidateComprehensionNestingLimit(maxNesting)),
	}
}

// sizes estimates the sizes of values when a rule is written.
type sizes struct{}

func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	size := uint64(expectedEntries)
	path := node.Path()
	switch {
	case slices.Equal(path, []string{"effect", "clusters"}), slices.Equal(path, []string{"change", "documents"}):
		size = expectedClusters
	case node.Type().Kind() == types.StringKind || node.Type().Kind() == types.BytesKind:
		size = expectedText
	}
	return &checker.SizeEstimate{Min: 0, Max: size}
}

func (sizes) EstimateCallCost(function, _ string, _ *checker.AstNode, _ []checker.AstNode) *checker.CallEstimate {
	if function == functionSemver || function == functionMatchesLabels {
		return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Min: labelsSteps, Max: semverSteps + expectedText}}
	}
	return nil
}

// readsRecentCount reports whether an expression may read recent.count: it has the variable recent other than as recent.removals.
func readsRecentCount(e ast.Expr) bool {
	others := 0
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch of, path := selected(e); {
		case e.Kind() == ast.IdentKind && e.AsIdent() == "recent":
			others++
		case of.Kind() == ast.IdentKind && of.AsIdent() == "recent" && slices.Equal(path, []string{"removals"}):
			others--
		}
	}))
	return others > 0
}

// countConstants counts the constants that are operands of && and ||, which take time in an evaluation, but no step.
func countConstants(e ast.Expr) (n int) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.LogicalAnd && e.AsCall().FunctionName() != operators.LogicalOr {
			return
		}
		for _, arg := range e.AsCall().Args() {
			if arg.Kind() == ast.LiteralKind {
				n++
			}
		}
	}))
	return n
}
