package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// What a change has to be confirmed with, by a person at a terminal and by a script.

// confirm makes sure that something destructive is meant: --yes says so, a person at a terminal is asked. Without
// either the command is refused, unless it is one that scripts have always been able to run.
func (s *session) confirm(c *cli.Context, ch change) error {
	if ch.description == "" || c.Bool("yes") || c.Bool("dry-run") {
		return nil
	}
	if !s.interactive() {
		if ch.unconfirmedInScripts {
			return nil
		}
		return args.Errorf("%s: confirmation required: not a terminal; use --yes", ch.description)
	}
	if _, err := io.WriteString(s.env.Stderr, s.connection.serverLine()); err != nil {
		return err
	}
	return s.prompter.Yes(ch.description)
}

// agreed asks, before anything is sent, whether a change is meant, and answers the hash of the plan that was agreed to;
// empty: it is not tied to one. Whoever is at a terminal is shown the plan, unless --yes says that it is meant. In a script
// --yes says so, or --max-removals.
func (s *session) confirmBeforeSending(c *cli.Context, conn client, ch change) (string, error) {
	limited := c.IsSet("max-removals")
	asking := s.interactive() && !c.Bool("yes") && !c.Bool("dry-run")
	if !limited && !asking {
		return "", s.confirm(c, ch)
	}
	_, plan, err := ch.plan(s, c, conn)
	if e, ok := errors.AsType[*apiclient.Error](err); ok && !limited && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed}, e.StatusCode) {
		return "", s.confirm(c, ch) // an older server cannot plan; of anything else that is missing it tells again
	}
	if err == nil && plan.PlanHash == "" {
		err = errors.New("the server's answer is not a plan")
	}
	if err != nil {
		return "", err
	}
	if limited {
		if err := withinRemovals(c, plan); err != nil {
			return "", err
		}
	}
	if asking && (ch.description != "" && len(plan.Changes) > 0 || removesAnything(plan)) {
		return plan.PlanHash, s.confirmPlan(c, plan, ch)
	}
	if limited || ch.description != "" {
		return plan.PlanHash, nil
	}
	return "", nil
}

// agreedAfter asks because the server wants a change confirmed. A script has to say how much it expects: --yes means that
// the change is meant, and not that it may do anything.
func (s *session) confirmAfterRefusal(c *cli.Context, conn client, ch change, refusal error) (string, error) {
	_, plan, err := ch.plan(s, c, conn)
	switch {
	case err != nil:
		return "", err
	case c.Bool("dry-run"):
		return plan.PlanHash, nil
	case s.interactive():
		return plan.PlanHash, s.confirmPlan(c, plan, ch)
	}
	advice := fmt.Sprintf("--max-removals %d", plan.Totals.Removals)
	if names := unconfirmed(c, plan); len(names) > 0 && !plan.ConfirmationRequired {
		advice = "--confirm " + strings.Join(names, " --confirm ") + ", " + advice
	}
	return "", hintedError{refusal, fmt.Sprintf(
		"Flux would uninstall %s; see which with --plan. Then repeat the command with %s, or with the --plan-hash that the plan shows.",
		summarize.Removals(plan), advice)}
}

// withinRemovals holds a plan against --max-removals.
func withinRemovals(c *cli.Context, plan api.Plan) error {
	most := c.Int("max-removals")
	if plan.Totals.Removals <= most {
		return nil
	}
	return hintedError{
		fmt.Errorf("Flux would uninstall %s, and --max-removals allows %d; nothing was changed", summarize.Removals(plan), most), //nolint:staticcheck // Flux is a name
		"see which with --plan.",
	}
}

// takesAway tells whether a plan deletes, removes or forgets anything.
func removesAnything(plan api.Plan) bool {
	return plan.Totals.Removals+plan.Totals.Removed > 0 ||
		slices.ContainsFunc(plan.Changes, func(ch api.ChangeRef) bool { return ch.Action == "delete" })
}

// askAbout shows a plan to the person at the terminal and asks. What takes something from a protected environment is only
// meant by whoever types its name.
func (s *session) confirmPlan(c *cli.Context, plan api.Plan, ch change) error {
	description := firstNonEmpty(ch.description, "make this change")
	text := []string{s.planText(plan, nil, planStyle{terminal: s.env.StderrTerminal}), "\n", s.connection.serverLine()}
	for _, tier := range plan.Protected {
		line := fmt.Sprintf("Protected: %s on %s in %s.", count(tier.Removals, "thing"), count(tier.Clusters, "cluster"), render.Printable(tier.Environment))
		text = append(text, s.color(render.Red, line), "\n")
	}
	if _, err := io.WriteString(s.env.Stderr, strings.Join(text, "")); err != nil {
		return err
	}
	names := unconfirmed(c, plan)
	if len(names) > 0 {
		return s.prompter.Names(description, names)
	}
	return s.prompter.Yes(description)
}

// unconfirmed are the protected environments that lose something and that --confirm does not name.
func unconfirmed(c *cli.Context, plan api.Plan) []string {
	var names []string
	for _, tier := range plan.Protected {
		if !slices.Contains(c.StringSlice("confirm"), tier.Environment) {
			names = append(names, tier.Environment)
		}
	}
	return names
}
