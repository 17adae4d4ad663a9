package fleet

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/fleet/internal/jsontext"
)

// Code is a stable machine-readable error code of the API.
type Code string

// The codes of the errors this package returns.
const (
	CodeInvalid         Code = "validation_error"      // the request is not valid; Problems has the reasons
	CodeNotFound        Code = "not_found"             // the document does not exist
	CodeConflict        Code = "conflict"              // the document exists already
	CodeInUse           Code = "in_use"                // other documents refer to it
	CodeProtected       Code = "protected"             // deletion protection is on
	CodeStale           Code = "stale"                 // If-Match does not name the current version; ETag does
	CodeLimitExceeded   Code = "limit_exceeded"        // some cluster's answer would be larger than Flux accepts
	CodeFieldConflict   Code = "field_conflict"        // another manager owns a patch with a different value
	CodeRevertConflict  Code = "revert_conflict"       // a later revision changed the same fields
	CodeObjectConflict  Code = "object_conflict"       // two inputs of a cluster would make the same object
	CodeConfirm         Code = "confirmation_required" // the removals require a plan that was reviewed
	CodeInRollout       Code = "in_rollout"            // an open rollout changes the same fields
	CodeFrozen          Code = "frozen"                // a freeze forbids to change the answers to some clusters
	CodePinned          Code = "pinned"                // a pinned cluster would be deleted or served something else
	CodeManagedBySource Code = "managed_by_source"     // a source manages a document that the change changes
	CodeSecondPerson    Code = "second_person"         // an approval by the person whose change it is
	CodeOutOfScope      Code = "out_of_scope"          // no access document of the principal permits the whole change
	CodeNotStageable    Code = "not_stageable"         // a rollout cannot make the change
	CodeMissingVariable Code = "missing_variable"      // a cluster would be served a reference without a value
	CodePolicy          Code = "policy"                // a policy refuses the change
	CodeSecretValue     Code = "secret_value"          // a patch looks like a secret, which the rules refuse
	CodeUnresolved      Code = "unresolved_reference"  // stored data refers to a missing document
)

// Problem is one problem of a document: its place (a JSON pointer, RFC 6901) and a description. Kind and ID name the
// document if a commit changes several.
type Problem struct {
	Pointer string
	Detail  string
	Kind    Kind
	ID      string

	other string // another path that is involved
	size  int    // the size that exceeds a limit: a stored problem that has not grown does not refuse a change
}

// at returns the detail, after a place if it is not empty.
func (p Problem) at(place string) string {
	if place == "" {
		return p.Detail
	}
	return place + ": " + p.Detail
}

// Error is every error of the domain. Detail is written for the author of the request.
type Error struct {
	Code     Code
	Detail   string
	Problems []Problem
	ETag     string // CodeStale: the current one
	// Approval is the one that admits the change, if CodePolicy is only because of policies with action approve.
	Approval NeededApproval
}

func (e *Error) Error() string { return e.Detail }

// NeededApproval is what an approval of a refused change must name.
type NeededApproval struct {
	PlanHash string
	Subject  string
}

// errorf returns an Error with a formatted detail.
func errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Invalid returns the validation error for some problems, or nil if there are none.
func Invalid(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Code: CodeInvalid, Detail: summarizeProblems(problems), Problems: problems}
}

// problemsOf converts problems of package jsontext.
func problemsOf(found []jsontext.Problem) []Problem {
	var out []Problem
	for _, p := range found {
		out = append(out, Problem{Pointer: p.Pointer, Detail: p.Detail, other: p.Other})
	}
	return out
}

// summarizeProblems returns the detail of an error with problems: the first one, and their number.
func summarizeProblems(problems []Problem) string {
	first := problems[0].at(problems[0].Pointer)
	if len(problems) == 1 {
		return first
	}
	return fmt.Sprintf("%d problems; the first: %s", len(problems), first)
}

// Pointer returns the JSON pointer (RFC 6901) to a field, given the keys that lead to it.
func Pointer(keys ...string) string {
	parts := make([]any, len(keys))
	for i, k := range keys {
		parts[i] = k
	}
	return jsontext.Pointer(parts...)
}

// list formats ids for a message: all of a few, the first of many.
func list(ids []string) string { return firstIDs(ids, 10) }

// firstIDs returns the first ids, and the number of the other ids.
func firstIDs(ids []string, most int) string {
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// failures collects the problems of several edits. If all have the same code, the resulting error has it too.
type failures struct {
	codes    map[Code]bool
	problems []Problem
}

// add adds problems with a code.
func (f *failures) add(code Code, problems ...Problem) {
	if f.codes == nil {
		f.codes = map[Code]bool{}
	}
	f.codes[code] = true
	f.problems = append(f.problems, problems...)
}

// err returns all problems as one error, or nil. Its code is the common code, or CodeInvalid if the codes differ.
func (f *failures) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	code := CodeInvalid
	if len(f.codes) == 1 {
		for c := range f.codes {
			code = c
		}
	}
	return &Error{Code: code, Detail: summarizeProblems(f.problems), Problems: f.problems}
}

// joinErrors returns one error with the problems of all, or the first error that has none for the API; nil: there is none.
func joinErrors(errs ...error) error {
	var failed failures
	for _, err := range errs {
		e, ok := errors.AsType[*Error](err)
		switch {
		case err == nil:
		case !ok:
			return err
		case len(e.Problems) == 0:
			failed.add(e.Code, Problem{Detail: e.Detail})
		default:
			failed.add(e.Code, e.Problems...)
		}
	}
	return failed.err()
}

// excerpt returns a value for a message.
func excerpt(v any) string {
	const longest = 80
	if v == nil {
		return "absent"
	}
	text, err := jsontext.Canonical(v)
	if err != nil {
		return "something"
	}
	if runes := []rune(string(text)); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return string(text)
}
