package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/policy"
	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// The actions of a policy for a change for which its rule is false.
const (
	PolicyDeny    = "deny"    // the change is refused
	PolicyWarn    = "warn"    // the change is made with a warning
	PolicyApprove = "approve" // the change needs the approval of a second person
)

const (
	maxPolicies           = 100
	maxPolicyEnvironments = 50
)

// Policy is the value of a policy's document: a rule about the effect of a change.
type Policy struct {
	api.Policy
	// selector selects the clusters of Match.
	selector Selector
	compile  func() (*policy.Program, error)
	// unknown: the document has a field that this version does not know. The field may restrict the policy.
	unknown bool
}

var policyKind = kindRules{
	name:       KindPolicy,
	noun:       "policy",
	collection: "policies",
	empty:      func() any { return new(Policy) },
	normalize: func(obj map[string]any) {
		unstructured.DropFalse(obj)
		unstructured.DropEmpty(obj, "description", "message")
		if match, ok := obj["match"].(map[string]any); ok {
			unstructured.DropEmpty(match, "selector")
			unstructured.DropEmptyList(match, "environments")
			if len(match) == 0 {
				delete(obj, "match")
			}
		}
	},
	complete: func(value any, body json.RawMessage) error { return value.(*Policy).parse(body) },
	check:    func(c *checker, d *Document) { checkPolicy(c, d.Policy()) },
	view: func(d *Document) any {
		view := d.Policy().Policy
		view.Revision, view.CreatedAt, view.UpdatedAt = int64(d.Revision), d.CreatedAt, d.UpdatedAt
		return &view
	},
}

// Policy returns the document as a policy; it must be one. The result must not be changed.
func (d *Document) Policy() *Policy { return d.value.(*Policy) }

// enforcedPolicies returns the policies that decide about changes of the State, sorted by id.
func (s *State) enforcedPolicies() []*Document {
	return s.sorted(KindPolicy, func(d *Document) bool { return !d.Policy().Suspended })
}

// Known reports whether this version knows all fields of the policy.
func (p *Policy) Known() bool { return !p.unknown }

// Program returns the compiled rule and message. It compiles them on the first call, since a stored policy that this version cannot compile
// must not prevent the start of a process.
func (p *Policy) Program() (*policy.Program, error) { return p.compile() }

// Matches reports whether the policy concerns a cluster as it is before or after a change.
func (p *Policy) Matches(c *api.Cluster) bool { return p.Match == nil || p.selector.Matches(c) }

// parse computes the selector: the environments are one more requirement of it.
func (p *Policy) parse(body json.RawMessage) (err error) {
	p.unknown = hasUnknownField(body, &api.Policy{})
	p.compile = sync.OnceValues(func() (*policy.Program, error) { return policy.Compile(p.Rule, p.Message) })
	if p.Match == nil {
		return nil
	}
	if _, err := ParseSelector(p.Match.Selector); err != nil {
		return fmt.Errorf("/match/selector: %w", err)
	}
	var requirements []string
	if len(p.Match.Environments) > 0 {
		requirements = append(requirements, "environment in ("+strings.Join(p.Match.Environments, ",")+")")
	}
	if s := strings.TrimSpace(p.Match.Selector); s != "" {
		requirements = append(requirements, s)
	}
	if p.selector, err = ParseSelector(strings.Join(requirements, ",")); err != nil {
		return fmt.Errorf("/match/environments: %w", err)
	}
	return nil
}

// checkPolicy checks a policy's document.
func checkPolicy(c *checker, p *Policy) {
	c.dnsSubdomain("/id", p.ID)
	c.text("/description", p.Description, 1024)
	var mistakes policy.RuleErrors
	if _, err := p.Program(); errors.As(err, &mistakes) {
		for _, m := range mistakes {
			c.problem("/"+m.Field, "%s", m)
		}
	} else if err != nil {
		c.problem("/rule", "%s", err)
	}
	c.oneOf("/action", p.Action, PolicyDeny, PolicyWarn, PolicyApprove)
	if m := p.Match; m != nil {
		c.atMost("/match/environments", len(m.Environments), maxPolicyEnvironments, "environments")
		if !c.next.hasCluster(p.Matches) {
			c.warn("policy %q matches no cluster", p.ID)
		}
	}
	if p.unknown {
		c.problem("", "it has a field that this version does not know")
	}
	if n := len(c.next.docs[KindPolicy]); n > maxPolicies {
		c.problem("", "there would be %d policies; at most %d are possible", n, maxPolicies)
	}
}
