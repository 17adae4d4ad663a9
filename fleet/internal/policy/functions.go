package policy

import (
	"sync"

	"github.com/Masterminds/semver/v3"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	functionSemver        = "semver"
	functionMatchesLabels = "matchesLabels"
)

// maxArgument is the maximum length of a version, a range or a selector.
const maxArgument = 1024

// functions are the standard ones and macros, and two more:
//   - semver(version, range): whether a version is in a range, as version policies have them. False for a text that is no version.
//   - matchesLabels(labels, selector): whether labels match a selector of Kubernetes.
func functions() []cel.EnvOption {
	return []cel.EnvOption{
		cel.StdLib(),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.Function(functionSemver, cel.Overload("semver_string_string", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType, cel.BinaryBinding(inRange))),
		cel.Function(functionMatchesLabels, cel.Overload("matches_labels_map_string", []*cel.Type{cel.MapType(cel.StringType, cel.StringType), cel.StringType}, cel.BoolType,
			cel.BinaryBinding(matchesLabels))),
	}
}

func inRange(version, limits ref.Val) ref.Val {
	v, ok := version.(types.String)
	text, okRange := limits.(types.String)
	if !ok || !okRange || len(text) > maxArgument {
		return types.NewErr("semver: a version and a range are required")
	}
	constraints, err := ranges.parse(string(text), semver.NewConstraint)
	if err != nil {
		return types.NewErr("semver: range %q: %v", string(text), err)
	}
	if len(v) > maxArgument {
		return types.False
	}
	parsed, err := semver.NewVersion(string(v))
	return types.Bool(err == nil && constraints.Check(parsed))
}

func matchesLabels(set, selector ref.Val) ref.Val {
	have, ok := set.(traits.Mapper)
	text, okSelector := selector.(types.String)
	if !ok || !okSelector || len(text) > maxArgument {
		return types.NewErr("matchesLabels: labels and a selector are required")
	}
	parsed, err := selectors.parse(string(text), func(s string) (labels.Selector, error) { return labels.Parse(s) })
	if err != nil {
		return types.NewErr("matchesLabels: selector %q: %v", string(text), err)
	}
	return types.Bool(parsed.Matches(labelMap{have}))
}

// labelMap are the labels of a value of a rule.
type labelMap struct{ traits.Mapper }

var _ labels.Labels = labelMap{}

func (m labelMap) Has(label string) bool { _, ok := m.Lookup(label); return ok }

func (m labelMap) Get(label string) string { value, _ := m.Lookup(label); return value }

func (m labelMap) Lookup(label string) (value string, exists bool) {
	found, ok := m.Find(types.String(label))
	text, isText := found.(types.String)
	return string(text), ok && isText
}

// parsed caches parsed texts: a rule parses the same one for thousands of clusters.
type parsed[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

const maxParsed = 200

var (
	ranges    parsed[*semver.Constraints]
	selectors parsed[labels.Selector]
)

func (p *parsed[T]) parse(text string, parse func(string) (T, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if value, ok := p.known[text]; ok {
		return value, nil
	}
	value, err := parse(text)
	if err != nil {
		return value, err
	}
	if p.known == nil || len(p.known) >= maxParsed {
		p.known = map[string]T{}
	}
	p.known[text] = value
	return value, nil
}
