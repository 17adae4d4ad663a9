package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// Confirmation of changes, by a person at a terminal and by a script.

// confirm requires confirmation of a destructive change: --yes, or the answer of a person at a terminal. Without either the command
// fails, unless it is one that scripts have always been able to run.
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

// confirmBeforeSending confirms a change before it is sent, and returns the hash of the confirmed plan; empty: the change is not
// tied to a plan. A person at a terminal sees the plan, unless --yes is set. A script confirms with --yes or --max-removals.
func (s *session) confirmBeforeSending(c *cli.Context, conn client, ch change) (string, error) {
	limited := c.IsSet("max-removals")
	asking := s.interactive() && !c.Bool("yes") && !c.Bool("dry-run")
	if !limited && !asking {
		return "", s.confirm(c, ch)
	}
	_, plan, err := ch.plan(s, c, conn)
	if err == nil && plan.PlanHash == "" {
		err = errors.New("unexpected response of the server: it is not a plan")
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

// confirmAfterRefusal confirms a change for which the server requires confirmation. A script has to state the number of removals:
// --yes alone sets no limit.
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
	return "", withHint(refusal, fmt.Sprintf(
		"Flux would uninstall %s; --plan shows them. Then repeat the command with %s, or with the --plan-hash of the plan.",
		summarize.Removals(plan), advice))
}

// withinRemovals compares a plan with --max-removals.
func withinRemovals(c *cli.Context, plan api.Plan) error {
	most := c.Int("max-removals")
	if plan.Totals.Removals <= most {
		return nil
	}
	return withHint(
		fmt.Errorf("Flux would uninstall %s, and --max-removals allows %d; nothing was changed", summarize.Removals(plan), most), //nolint:staticcheck // Flux is a name
		"--plan shows them.",
	)
}

// removesAnything reports whether a plan deletes, removes or forgets anything.
func removesAnything(plan api.Plan) bool {
	return plan.Totals.Removals+plan.Totals.Removed > 0 ||
		slices.ContainsFunc(plan.Changes, func(ch api.ChangeRef) bool { return ch.Action == "delete" })
}

// confirmPlan shows a plan to the person at the terminal and prompts. A removal in a protected environment is confirmed by typing
// its name.
func (s *session) confirmPlan(c *cli.Context, plan api.Plan, ch change) error {
	description := cmp.Or(ch.description, "make this change")
	text := []string{planview.Plan(plan, nil, s.planStyle(false, s.env.StderrTerminal)), "\n", s.connection.serverLine()}
	for _, tier := range plan.Protected {
		line := fmt.Sprintf("Protected: %s on %s in %s.", summarize.Count(tier.Removals, "thing"), summarize.Count(tier.Clusters, "cluster"), render.Printable(tier.Environment))
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

// unconfirmed returns the protected environments with removals that --confirm does not name.
func unconfirmed(c *cli.Context, plan api.Plan) []string {
	var names []string
	for _, tier := range plan.Protected {
		if !slices.Contains(c.StringSlice("confirm"), tier.Environment) {
			names = append(names, tier.Environment)
		}
	}
	return names
}
