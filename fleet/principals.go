package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Who is behind a commit: approvals and rollouts compare people.

// person returns a text that identifies the principal; empty: it is unknown.
func (p Principal) person() string { return personOf(p.Identity, p.Actor) }

// subject returns the principal as approvals name it; empty: it is unknown.
func (p Principal) subject() string {
	if p.Identity != nil {
		return oidcActor + p.Identity.Issuer + ":" + p.Identity.Sub
	}
	return p.person()
}

// personNamed returns the person that a subject of an approval names.
func personNamed(subject string) string {
	if of, ok := strings.CutPrefix(subject, oidcActor); ok {
		issuer, sub, _ := strings.Cut(of, ":")
		return personOf(&Subject{Issuer: issuer, Sub: sub}, "")
	}
	return subject
}

// isNamedIn reports whether a text, which a client chooses, names the principal: its actor, its name or its subject.
func (p Principal) isNamedIn(text string) bool {
	name, _, _ := strings.Cut(p.person(), " ")
	names := []string{p.Actor, p.subject(), name, strings.TrimPrefix(name, tokenActor)}
	if p.Identity != nil {
		_, of, _ := strings.Cut(strings.TrimPrefix(p.Actor, oidcActor), ":")
		user, _, _ := strings.Cut(of, " (")
		names = []string{p.Actor, p.subject(), p.Identity.Sub, p.Identity.User, user}
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`<>()[]",;`, r) })
	return slices.ContainsFunc(append(words, strings.TrimSpace(text)), func(word string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return name != "" && strings.EqualFold(name, word) })
	})
}

// personOf returns a text that identifies the person behind a commit; empty: the person is unknown. For an identity of an issuer, it is
// the issuer and the subject, without the name, which the person may choose. For a managed token, it is the token's name, since a token
// that is issued again has another id. Otherwise it is the actor.
func personOf(identity *Subject, actor string) string {
	switch {
	case identity != nil:
		return fmt.Sprintf("oidc %q %q", identity.Issuer, identity.Sub)
	case strings.HasPrefix(actor, oidcActor):
		return ""
	case strings.HasPrefix(actor, tokenActor):
		actor, _, _ = strings.Cut(actor, " (")
	}
	return actor
}

// oidcActor is the prefix of actors of issuers.
const oidcActor = "oidc:"

// samePerson reports whether the sender of a commit is the person with an id that a rollout records. A rollout of an earlier version
// records no id: then the issuer and the end of the actor decide, which may also match another person.
func samePerson(identity *Subject, actor, id, named string) bool {
	if id == "" && identity != nil {
		return strings.HasPrefix(named, oidcActor+identity.Issuer+":") && strings.HasSuffix(named, "("+identity.Sub+")")
	}
	return personOf(identity, actor) == cmp.Or(id, personOf(nil, named))
}
