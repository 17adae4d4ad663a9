package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/unstructured"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// Right permits one class of operations. None includes another one.
type Right = api.Right

// The rights.
const (
	RightRead           Right = "read"            // reads of the fleet
	RightPlan           Right = "plan"            // plans and dry runs
	RightWrite          Right = "write"           // changes of documents, except access documents and tokens
	RightRevert         Right = "revert"          // changes that consist of reverts
	RightPushVersion    Right = "push_version"    // changes of the version of a component
	RightApprove        Right = "approve"         // approvals of stages of rollouts, and of changes that policies refuse
	RightOverrideFreeze Right = "override_freeze" // changes despite a freeze, together with a right that permits them
	RightOverrideSource Right = "override_source" // changes of documents that a source manages, together with a right that permits them
	RightOverridePolicy Right = "override_policy" // changes that a policy refuses, together with a right that permits them
	RightPolicy         Right = "policy"          // changes of policies
	RightAdmin          Right = "admin"           // access documents, tokens and backups
)

var rights = []string{RightRead, RightPlan, RightWrite, RightRevert, RightPushVersion, RightApprove, RightOverrideFreeze, RightOverrideSource, RightOverridePolicy, RightPolicy, RightAdmin}

// overrideRights permit what something refuses, together with a right that permits the change in the same access document.
var overrideRights = []Right{RightOverrideFreeze, RightOverrideSource, RightOverridePolicy}

const (
	maxAccess         = 500 // documents
	maxAccessSubjects = 50
	maxAccessGroups   = 50
	maxAccessClaims   = 20
)

var accessKind = kindRules{
	name:       KindAccess,
	noun:       "access document",
	collection: "access",
	empty:      func() any { return new(access) },
	normalize:  func(obj map[string]any) { unstructured.DropEmpty(obj, "description") },
	complete:   func(value any, body json.RawMessage) error { return value.(*access).parse(body) },
	check:      func(c *checker, d *Document) { checkAccess(c, d.access()) },
	view: func(d *Document) any {
		view := d.access().Access
		view.Revision, view.CreatedAt, view.UpdatedAt = int64(d.Revision), d.CreatedAt, d.UpdatedAt
		return &view
	},
}

func (d *Document) access() *access { return d.value.(*access) }

// parse computes the selector, and sets unknown if the document or an object in it has an unknown field.
func (a *access) parse(body json.RawMessage) (err error) {
	a.unknown = hasUnknownField(body, &api.Access{})
	if a.On != nil && a.On.Selector != "" {
		if a.selector, err = ParseSelector(a.On.Selector); err != nil {
			return fmt.Errorf("/on/selector: %w", err)
		}
	}
	return nil
}

// hasUnknownField reports whether a text has fields that a model does not have.
func hasUnknownField(text json.RawMessage, model any) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(model) != nil
}

// may reports whether the document grants a right.
func (a *access) may(right Right) bool { return slices.Contains(a.May, right) }

// coversKind reports whether a kind is within the limits. Without kinds, the other limits determine the kinds.
func (a *access) coversKind(kind Kind) bool {
	if len(a.On.Kinds) > 0 {
		return slices.Contains(a.On.Kinds, string(kind))
	}
	return kind == KindCluster && a.On.Selector != "" || kind == KindComponent && len(a.On.Components) > 0 || kind == KindLayer && len(a.On.Layers) > 0
}

// coversVersionsOf reports whether the right to push versions includes documents of a kind. Clusters and layers have to be named.
func (a *access) coversVersionsOf(kind Kind) bool {
	if kind == KindComponent {
		return a.On == nil || a.coversKind(kind)
	}
	return (kind == KindCluster || kind == KindLayer) && a.On != nil && slices.Contains(a.On.Kinds, string(kind))
}

// permitsChanges reports whether the document grants a right to change something.
func (a *access) permitsChanges() bool {
	return slices.ContainsFunc(a.May, func(right Right) bool {
		return right != RightRead && right != RightPlan && !slices.Contains(overrideRights, right)
	})
}

// expired reports whether the rights have ended.
func (a *access) expired(now time.Time) bool { return a.ExpiresAt != nil && !now.Before(*a.ExpiresAt) }

// indexAccess builds the index that Rights uses.
func (s *State) indexAccess() {
	if s.access = nil; len(s.docs[KindAccess]) == 0 {
		return
	}
	s.access = &accessIndex{tokens: map[string][]*access{}, sources: map[string][]*access{}, groups: map[[2]string][]*access{}, claims: map[string][]claimSubject{}}
	for _, d := range s.sorted(KindAccess, func(*Document) bool { return true }) {
		a := d.access()
		if a.unknown {
			continue
		}
		for _, sub := range a.Subjects {
			switch {
			case sub.Token != "":
				s.access.tokens[sub.Token] = append(s.access.tokens[sub.Token], a)
			case sub.Source != "":
				s.access.sources[sub.Source] = append(s.access.sources[sub.Source], a)
			case len(sub.Claims) > 0:
				s.access.claims[sub.Issuer] = append(s.access.claims[sub.Issuer], claimSubject{sub, a})
			default:
				for _, group := range sub.Groups {
					key := [2]string{sub.Issuer, group}
					s.access.groups[key] = append(s.access.groups[key], a)
				}
			}
		}
	}
}

// accessOfToken returns the ids of the access documents that select a token by its name.
func (s *State) accessOfToken(name string) (ids []string) {
	if s.access == nil {
		return nil
	}
	for _, a := range s.access.tokens[name] {
		ids = append(ids, a.ID)
	}
	return ids
}

// Rights are the rights of a [Subject] in one State: the union of the access documents that select it. The zero value permits
// nothing.
type Rights struct {
	grants  []*access
	subject *Subject // nil without grants
}

// Rights returns the rights of a subject at a time. Expired access documents grant none.
func (s *State) Rights(sub *Subject, now time.Time) Rights {
	var r Rights
	if s == nil || s.access == nil || sub == nil {
		return r
	}
	add := func(a *access) {
		if !a.expired(now) && !slices.Contains(r.grants, a) {
			r.grants, r.subject = append(r.grants, a), sub
		}
	}
	if sub.Token != "" {
		for _, a := range s.access.tokens[sub.Token] {
			add(a)
		}
		return r
	}
	if sub.Source != "" {
		for _, a := range s.access.sources[sub.Source] {
			add(a)
		}
		return r
	}
	for _, group := range sub.Groups {
		for _, a := range s.access.groups[[2]string{sub.Issuer, group}] {
			add(a)
		}
	}
	for _, c := range s.access.claims[sub.Issuer] {
		if c.selects(sub) {
			add(c.access)
		}
	}
	return r
}

// Identity returns the identity that has the rights, with only the groups and claims that its access documents name; nil for a
// managed token.
func (r Rights) Identity() *Subject {
	if r.subject == nil || r.subject.Issuer == "" {
		return nil
	}
	out := &Subject{Issuer: r.subject.Issuer, User: r.subject.User, Sub: r.subject.Sub, Claims: map[string]string{}}
	for _, a := range r.grants {
		for _, sub := range a.Subjects {
			if sub.Issuer != out.Issuer {
				continue
			}
			for _, group := range sub.Groups {
				if slices.Contains(r.subject.Groups, group) && !slices.Contains(out.Groups, group) {
					out.Groups = append(out.Groups, group)
				}
			}
			for name := range sub.Claims {
				if value, ok := r.subject.Claims[name]; ok {
					out.Claims[name] = value
				}
			}
		}
	}
	return out
}

// selects reports whether an identity of the issuer has the claims, and one of the groups if there are any.
func (c claimSubject) selects(sub *Subject) bool {
	for name, want := range c.Claims {
		have, present := sub.Claims[name]
		if name == "sub" {
			have, present = sub.Sub, sub.Sub != ""
		}
		if !present || !matchesPattern(want, have) {
			return false
		}
	}
	return len(c.Groups) == 0 || slices.ContainsFunc(c.Groups, func(group string) bool { return slices.Contains(sub.Groups, group) })
}

// matchesPattern reports whether a text equals a pattern, or starts with it if it ends with *.
func matchesPattern(pattern, text string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(text, prefix)
	}
	return pattern == text
}

// Include reports whether the rights include one, at least for some clusters or documents.
func (r Rights) Include(right Right) bool {
	return slices.ContainsFunc(r.grants, func(a *access) bool { return a.may(right) })
}

// Everywhere reports whether the rights include one for all clusters and documents.
func (r Rights) Everywhere(right Right) bool {
	return slices.ContainsFunc(r.grants, func(a *access) bool { return a.On == nil && a.may(right) })
}

// Names returns the rights that apply at least to some clusters or documents, in the order of their declaration.
func (r Rights) Names() []string {
	names := []string{}
	for _, right := range rights {
		if r.Include(right) {
			names = append(names, right)
		}
	}
	return names
}

// Documents returns the access documents that grant the rights, as the API shows them, without their subjects.
func (r Rights) Documents() []api.GrantedAccess {
	out := make([]api.GrantedAccess, len(r.grants))
	for i, a := range r.grants {
		out[i] = api.GrantedAccess{ID: a.ID, May: a.May, On: a.On, ExpiresAt: a.ExpiresAt}
	}
	return out
}

// checkAccess checks an access document.
func checkAccess(c *checker, a *access) {
	c.dnsSubdomain("/id", a.ID)
	if a.ID == "check" || a.ID == "sessions" {
		c.problem("/id", "%q is reserved", a.ID)
	}
	c.text("/description", a.Description, 1024)
	if n := len(a.Subjects); n == 0 || n > maxAccessSubjects {
		c.problem("/subjects", "there must be 1 to %d subjects", maxAccessSubjects)
	}
	for i, sub := range a.Subjects[:min(len(a.Subjects), maxAccessSubjects)] {
		checkAccessSubject(c, fmt.Sprintf("/subjects/%d", i), sub)
	}
	if len(a.May) == 0 || len(a.May) > len(rights) {
		c.problem("/may", "there must be 1 to %d rights", len(rights))
	}
	for i, right := range a.May[:min(len(a.May), len(rights))] {
		c.oneOf(fmt.Sprintf("/may/%d", i), right, rights...)
	}
	if a.On != nil {
		checkAccessScope(c, a)
	}
	warnOfRights(c, a)
	if a.unknown {
		c.problem("", "it has a field that this version does not know")
	}
	if a.expired(c.next.At()) {
		c.warn("access document %q has expired already, at %s", a.ID, a.ExpiresAt.UTC().Format(time.RFC3339))
	}
	if n := len(c.next.docs[KindAccess]); n > maxAccess {
		c.problem("", "there would be %d access documents; at most %d are possible", n, maxAccess)
	}
}

// warnOfRights warns about rights that have no effect with the limits.
func warnOfRights(c *checker, a *access) {
	if a.may(RightPushVersion) && !slices.ContainsFunc([]Kind{KindComponent, KindCluster, KindLayer}, a.coversVersionsOf) {
		c.warn("the right %s has no effect: kinds contains none of %s, %s and %s", RightPushVersion, KindComponent, KindCluster, KindLayer)
	}
	if a.may(RightApprove) && a.On != nil && slices.Equal(a.On.Kinds, []string{string(KindRollout)}) {
		c.warn("the right %s has no effect: kinds must contain the kinds of the changed documents too", RightApprove)
	}
	for _, right := range overrideRights {
		if a.may(right) && !a.permitsChanges() {
			c.warn("the right %s has no effect: the same access document must grant a right that permits changes", right)
		}
	}
}

// checkAccessSubject checks a subject, and warns about claims that also match unexpected identities.
func checkAccessSubject(c *checker, at string, sub api.AccessSubject) {
	set := 0
	for _, text := range []string{sub.Token, sub.Issuer, sub.Source} {
		if text != "" {
			set++
		}
	}
	if set != 1 {
		c.problem(at, "exactly one of token, issuer and source is required")
		return
	}
	if sub.Source != "" {
		if len(sub.Groups)+len(sub.Claims) > 0 {
			c.problem(at, "groups and claims are for an issuer")
		}
		c.dnsSubdomain(at+"/source", sub.Source)
		return
	}
	if sub.Token != "" {
		if len(sub.Groups)+len(sub.Claims) > 0 {
			c.problem(at, "groups and claims are for an issuer")
		}
		if !c.next.hasScopedToken(sub.Token) {
			c.warn("there is no token %q of role scoped", sub.Token)
		}
		return
	}
	c.text(at+"/issuer", sub.Issuer, 253)
	if len(sub.Groups)+len(sub.Claims) == 0 {
		c.problem(at, "groups or claims are required: the issuer alone would select each of its identities")
	}
	c.atMost(at+"/groups", len(sub.Groups), maxAccessGroups, "groups")
	for i, group := range sub.Groups[:min(len(sub.Groups), maxAccessGroups)] {
		c.required(fmt.Sprintf("%s/groups/%d", at, i), group)
		c.text(fmt.Sprintf("%s/groups/%d", at, i), group, 1024)
	}
	c.atMost(at+"/claims", len(sub.Claims), maxAccessClaims, "claims")
	for _, name := range sortedKeys(sub.Claims) {
		pointer := at + "/claims" + Pointer(name)
		c.required(pointer, name)
		c.required(pointer, sub.Claims[name])
		c.text(pointer, sub.Claims[name], 1024)
		checkPattern(c, pointer, sub.Claims[name])
	}
	warnOfClaims(c, sub)
}

// warnOfClaims warns about claims of GitHub that do not identify a repository permanently, or that match every run in it.
func warnOfClaims(c *checker, sub api.AccessSubject) {
	has := func(name string) bool { return sub.Claims[name] != "" }
	if has("repository") && !has("repository_id") || has("repository_owner") && !has("repository_owner_id") {
		c.warn("a subject of issuer %q names a repository or an owner without its id: another one can get the name later; add repository_id or repository_owner_id", sub.Issuer)
	}
	if (has("repository") || has("repository_id")) && !has("ref") && !has("environment") && !has("sub") {
		c.warn("a subject of issuer %q selects every run of a repository, also those of pull requests: add ref or environment", sub.Issuer)
	}
}

// checkPattern refuses a pattern that has * anywhere but at its end.
func checkPattern(c *checker, at, pattern string) {
	if i := strings.IndexByte(pattern, '*'); i >= 0 && i < len(pattern)-1 {
		c.problem(at, "* is possible only at the end")
	}
}

// checkAccessScope checks the limits of an access document.
func checkAccessScope(c *checker, a *access) {
	on := a.On
	var limitable []string
	for kind := range c.next.kinds.byName {
		if c.next.kinds.useOf(kind).writers {
			limitable = append(limitable, string(kind))
		}
	}
	slices.Sort(limitable)
	if on.Selector == "" && len(on.Kinds)+len(on.Components)+len(on.Layers) == 0 {
		c.problem("/on", "must have a limit; without limits, omit it")
	}
	for i, kind := range on.Kinds {
		if _, typed := Kind(kind).ResourceType(); !typed { // the resource type may be created later
			c.oneOf(fmt.Sprintf("/on/kinds/%d", i), kind, limitable...)
		}
	}
	for _, list := range []struct {
		at     string
		values []string
		kind   Kind
	}{{"/on/components", on.Components, KindComponent}, {"/on/layers", on.Layers, KindLayer}} {
		for i, pattern := range list.values {
			c.required(fmt.Sprintf("%s/%d", list.at, i), pattern)
			checkPattern(c, fmt.Sprintf("%s/%d", list.at, i), pattern)
		}
		if len(list.values) > 0 && len(on.Kinds) > 0 && !slices.Contains(on.Kinds, string(list.kind)) {
			c.problem(list.at, "kinds must contain %s", list.kind)
		}
	}
	checkLabelKeys(c, on)
	if on.Selector != "" && strings.TrimSpace(on.Selector) == "" {
		c.problem("/on/selector", "must not be empty; without limits, omit it")
	}
	if on.Selector != "" && !c.next.hasCluster(a.selector.Matches) {
		c.warn("access document %q matches no cluster", a.ID)
	}
	if a.may(RightAdmin) {
		c.problem("/on", "the right admin cannot be limited: its holder could grant itself every right")
	}
	if a.may(RightPolicy) {
		c.problem("/on", "the right policy cannot be limited: policies concern the changes of everybody")
	}
}

// checkLabelKeys checks the label keys of the limits of an access document.
func checkLabelKeys(c *checker, on *api.AccessScope) {
	for i, pattern := range on.Labels {
		at := fmt.Sprintf("/on/labels/%d", i)
		c.required(at, pattern)
		checkPattern(c, at, pattern)
		if strings.TrimSuffix(pattern, "*") == "id" {
			c.problem(at, "the id of a cluster cannot be changed")
		}
	}
	if len(on.Labels) > 0 && (on.Selector == "" && len(on.Kinds) == 0 || len(on.Kinds) > 0 && !slices.Contains(on.Kinds, string(KindCluster))) {
		c.problem("/on/labels", "the limits must permit changes of the kind %s: add it to kinds", KindCluster)
	}
}

// hasScopedToken reports whether a managed token of role scoped has this name.
func (s *State) hasScopedToken(name string) bool {
	for _, d := range s.docs[KindToken] {
		if t := d.token(); t.Name == name && t.Role == RoleScoped {
			return true
		}
	}
	return false
}
