package conn

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// ReportInterrupted reports what a run that a signal ended may have changed.
func (s *Session) ReportInterrupted(err error) {
	if _, unanswered := errors.AsType[*apiclient.UnansweredError](err); unanswered || !errors.Is(err, context.Canceled) {
		s.ReportError(err)
		return
	}
	_, _ = io.WriteString(s.Env.Stderr, s.earlierChangeText())
}

// maxProblems is the number of problems of an error that are printed without --verbose, so that its first line stays on the screen.
const maxProblems = 20

// ReportError prints an error as one block: the error, the problems of its fields, and a hint.
func (s *Session) ReportError(err error) {
	var b strings.Builder
	text := ErrorText(err)
	if usage, ok := errors.AsType[args.Error](err); ok {
		text = args.Renamed(usage.Error(), s.Program)
	}
	_, _ = fmt.Fprintf(&b, "%s %s\n", s.Color(render.Red, "Error:"), render.Printable(text))
	if problem, ok := errors.AsType[*apiclient.Error](err); ok {
		for i, field := range problem.Problem.Errors {
			if len(problem.Problem.Errors) == 1 && strings.Contains(problem.Problem.Detail, field.Detail) || problem.Problem.Error == "policy" || problem.Problem.Error == "frozen" && !s.Verbose {
				break // the first line has the same text, or counts the clusters
			}
			if i == maxProblems && !s.Verbose {
				_, _ = fmt.Fprintf(&b, "  … and %d more; -v prints them all\n", len(problem.Problem.Errors)-i)
				break
			}
			line := field.Detail
			if field.Pointer != "" {
				line = field.Pointer + ": " + line
			}
			if problem.Problem.Error == "frozen" {
				line = field.ID + " " + line
			}
			_, _ = fmt.Fprintf(&b, "  %s\n", render.Printable(line))
		}
		if problem.Lost {
			b.WriteString("  An earlier attempt was sent and its response was lost: the change may have been made.\n")
		}
	}
	b.WriteString(s.earlierChangeText())
	if hint := s.hint(err); hint != "" {
		_, _ = fmt.Fprintf(&b, "Hint: %s\n", hint)
	}
	_, _ = io.WriteString(s.Env.Stderr, b.String())
}

// earlierChangeText reports a change that was made before the error; empty: none was made.
func (s *Session) earlierChangeText() string {
	made, at := s.Connection.lastChange()
	if !made {
		return ""
	}
	text := "  A change was made before that"
	if s.Stdout.failed {
		text = "  The change was made"
	}
	if at != "" {
		text += ": the fleet is at revision " + render.Printable(at)
	}
	if s.Stdout.failed {
		text += ". Only the output failed"
	}
	return text + ".\n"
}

// Stdout is standard output. It records whether a write failed.
type Stdout struct {
	to     io.Writer
	failed bool
}

func (w *Stdout) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.failed = w.failed || err != nil
	return n, err
}

// Terminal returns the wrapped file, if no write has failed, so that a pager detects the terminal.
func (w *Stdout) Terminal() io.Writer {
	if f, ok := w.to.(*os.File); ok {
		return f
	}
	return w
}

// ErrorText returns the first line: the server's message without method and path, which the user did not type.
func ErrorText(err error) string {
	problem, ok := errors.AsType[*apiclient.Error](err)
	if !ok {
		return err.Error()
	}
	return strings.ReplaceAll(err.Error(), problem.Error(), problemText(problem))
}

func problemText(e *apiclient.Error) string {
	if e.Problem.Error == "" {
		detail := cmp.Or(e.Problem.Detail, "this is not a response of flux-resourceset")
		return fmt.Sprintf("%s %s was answered with status %d: %s", e.Method, e.Path, e.StatusCode, detail)
	}
	return fmt.Sprintf("%s (%d %s)", e.Problem.Detail, e.StatusCode, e.Problem.Error)
}

// hint returns advice about an error; empty when the error is enough.
func (s *Session) hint(err error) string {
	if e, ok := errors.AsType[HintedError](err); ok {
		return e.hint
	}
	if problem, ok := errors.AsType[*apiclient.Error](err); ok {
		if hint := s.Connection.behindHint(problem); hint != "" {
			return hint
		}
		if problem.Problem.Error == "frozen" {
			return freezeHint(problem.Problem.Errors)
		}
		if p := problem.Problem; p.PlanHash != "" {
			return fmt.Sprintf("another person can approve it: flux-resourceset-cli approve %s --for %s", p.PlanHash, summarize.ShellWord(render.Printable(p.Subject)))
		}
		return hints[cmp.Or(problem.Problem.Error, fmt.Sprint(problem.StatusCode))]
	}
	if lost, ok := errors.AsType[*apiclient.UnansweredError](err); ok {
		return fmt.Sprintf("before you repeat it, check: get revisions --limit 5 -o wide; if it was made, its revision has the request id %s.", lost.RequestID)
	}
	var (
		op         *net.OpError
		dns        *net.DNSError
		authority  x509.UnknownAuthorityError
		usage      args.Error
		serverHint = fmt.Sprintf("is the server running, and is %s its address? Set it with FLUX_API_URL, --api-url or a context.", s.Connection.Settings.URL)
	)
	switch {
	case errors.As(err, &usage):
		return ""
	case errors.As(err, &authority):
		return "name the authority that signed the server's certificate with --ca-file."
	case errors.As(err, &dns), errors.As(err, &op):
		return serverHint
	case errors.Is(err, context.DeadlineExceeded):
		return serverHint + " --timeout sets a longer limit."
	}
	return ""
}

// freezeHint names the freezes that refused a change.
func freezeHint(clusters []api.FieldProblem) string {
	var names []string
	for _, c := range clusters {
		if _, name, ok := strings.Cut(c.Detail, "is frozen by "); ok && !slices.Contains(names, strings.Trim(name, `"`)) {
			names = append(names, strings.Trim(name, `"`))
		}
	}
	if len(names) == 0 {
		names = []string{"FREEZE"}
	}
	return "to override the freeze, repeat the command with --override-freeze " + render.Printable(strings.Join(names, " --override-freeze ")) + " --reason REASON."
}

// hints by error code of the server, or by status without a code.
var hints = map[string]string{
	"managed_by_source":     "change it in the file. For an urgent change, repeat the command with --override-source SOURCE --reason REASON: it stays until the source applies its next artifact.",
	"policy":                "change less, or start a rollout. For an urgent change, repeat the command with --override-policy POLICY --reason REASON, which needs role admin or the right override_policy.",
	"unauthorized":          "reads use FLUX_API_TOKEN (--api-token), changes FLUX_API_WRITE_TOKEN (--write-token), or the context's tokens; config view shows those that are set.",
	"out_of_scope":          "auth whoami shows your access documents; one of them must permit the whole change",
	"forbidden":             "this token lacks the permission, auth whoami shows those that it has; use one with a higher role, see: token create --help",
	"method_not_allowed":    "a server in read-only mode rejects changes: set FLUX_API_URL to the server in crud mode.",
	"in_use":                "unassign it first where it is used; --cascade unassigns it from every cluster in the same change.",
	"protected":             "lift the protection with: cluster set ID --deletion-protection=false",
	"stale":                 "another client changed it in the meantime: check it, then repeat the change.",
	"too_large":             "apply parts of the fleet one after the other, such as one kind or directory at a time, definitions before clusters; each part is then a change of its own.",
	"store_unavailable":     "nothing was changed; try again in a moment.",
	"issuer_unavailable":    "use a managed token, or try again when the identity provider answers.",
	"contended":             "nothing was changed; other clients change the fleet too often: try again in a moment.",
	"unknown_revision":      "the revisions stored for the server were removed: check the fleet, then repeat the command.",
	"outcome_unknown":       "the change may or may not have been made: before you repeat it, check: get revisions --limit 5",
	"field_conflict":        "ownership CLUSTER COMPONENT shows the managers; with their consent, --force takes a value over.",
	"object_conflict":       "unassign one of the two from the cluster, or put both into one definition.",
	"revert_conflict":       "nothing was changed; --ours keeps later changes, --theirs reverts them as well, and --only reverts a part.",
	"confirmation_required": "check the effect with --plan, then repeat the command with --max-removals N, or with the --plan-hash of the plan.",
	"internal_error":        "the server's log has the cause, under the request id.",
	"unresolved_reference":  "the stored data refers to a document that does not exist; the server's log names it.",
	"401":                   "a proxy in front of the server requires other credentials.",
	"502":                   "the proxy responds, but the server behind it does not; a change may have been made, so before you repeat it, check: get revisions --limit 5",
	"504":                   "the proxy responds, but the server behind it does not; a change may have been made, so before you repeat it, check: get revisions --limit 5",
	"503":                   "the server is not ready; try again in a moment, or see: status",
	"404":                   "the address reaches a server, but not this service; check its path in FLUX_API_URL.",
}

// HintedError is an error whose hint depends on the command.
type HintedError struct {
	error
	hint string
}

func (e HintedError) Unwrap() error { return e.error }

// WithHint returns an error with its hint.
func WithHint(err error, hint string) error { return HintedError{err, hint} }
