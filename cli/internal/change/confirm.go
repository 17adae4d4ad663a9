package change

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// Confirmation of changes, by a person at a terminal and by a script.

// Confirm requires confirmation of a destructive change: --yes, or the answer of a person at a terminal. Without either the command
// fails, unless it is one that scripts have always been able to run.
func (s *Engine) Confirm(c *cli.Context, ch Change) error {
	if ch.Description == "" || c.Bool("yes") || c.Bool("dry-run") {
		return nil
	}
	if !s.Interactive() {
		if ch.UnconfirmedInScripts {
			return nil
		}
		return args.Errorf("%s: confirmation required: not a terminal; use --yes", ch.Description)
	}
	if _, err := io.WriteString(s.Env.Stderr, s.Connection.ServerLine()); err != nil {
		return err
	}
	return s.Prompter.Yes(ch.Description)
}

// confirmBeforeSending confirms a change before it is sent, and returns the hash of the confirmed plan; empty: the change is not
// tied to a plan. A person at a terminal sees the plan, unless --yes is set. A script confirms with --yes or --max-removals.
func (s *Engine) confirmBeforeSending(c *cli.Context, client conn.Client, ch Change) (string, error) {
	limited := c.IsSet("max-removals")
	asking := s.Interactive() && !c.Bool("yes") && !c.Bool("dry-run")
	if !limited && !asking {
		return "", s.Confirm(c, ch)
	}
	_, plan, err := ch.plan(s, c, client)
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
	if asking && (ch.Description != "" && len(plan.Changes)+len(plan.Adopted) > 0 || removesAnything(plan)) {
		return plan.PlanHash, s.confirmPlan(c, plan, ch)
	}
	if asking && !limited && !c.IsSet("rollout") { // --max-removals is of a script, which may run with a pseudo-terminal
		most, err := s.unconfirmedClusters()
		if err != nil {
			return "", err
		}
		if plan.Totals.Clusters > most {
			return plan.PlanHash, s.confirmReach(plan)
		}
	}
	if limited || ch.Description != "" {
		return plan.PlanHash, nil
	}
	return "", nil
}

// unconfirmedClusters returns the largest number of clusters that a change may reach without a prompt at a terminal.
func (s *Engine) unconfirmedClusters() (int, error) {
	text := cmp.Or(s.Env.Getenv("CONFIRM_CLUSTERS"), "10")
	most, err := strconv.Atoi(text)
	if err != nil || most < 0 {
		return 0, args.Errorf("CONFIRM_CLUSTERS %q is not a number of clusters", text)
	}
	return most, nil
}

// confirmReach shows the totals of a change of many clusters to the person at the terminal, and prompts.
func (s *Engine) confirmReach(plan api.Plan) error {
	if _, err := io.WriteString(s.Env.Stderr, planview.Totals(plan)+"\n"+s.Connection.ServerLine()); err != nil {
		return err
	}
	return s.Prompter.Yes("make this change")
}

// confirmAfterRefusal confirms a change for which the server requires confirmation. A script has to state the number of removals:
// --yes alone sets no limit.
func (s *Engine) confirmAfterRefusal(c *cli.Context, client conn.Client, ch Change, refusal error) (string, error) {
	_, plan, err := ch.plan(s, c, client)
	switch {
	case err != nil:
		return "", err
	case c.Bool("dry-run"):
		return plan.PlanHash, nil
	case s.Interactive():
		return plan.PlanHash, s.confirmPlan(c, plan, ch)
	}
	advice := fmt.Sprintf("--max-removals %d", plan.Totals.Removals)
	if names := unconfirmed(c, plan); len(names) > 0 && !plan.ConfirmationRequired {
		advice = "--confirm " + strings.Join(names, " --confirm ") + ", " + advice
	}
	return "", conn.WithHint(refusal, fmt.Sprintf(
		"Flux would uninstall %s; --plan shows them. Then repeat the command with %s, or with the --plan-hash of the plan.",
		summarize.Removals(plan), advice))
}

// withinRemovals compares a plan with --max-removals.
func withinRemovals(c *cli.Context, plan api.Plan) error {
	most := c.Int("max-removals")
	if plan.Totals.Removals <= most {
		return nil
	}
	return conn.WithHint(
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
func (s *Engine) confirmPlan(c *cli.Context, plan api.Plan, ch Change) error {
	description := cmp.Or(ch.Description, "make this change")
	text := []string{planview.Plan(plan, nil, s.PlanStyle(false, s.Env.StderrTerminal)), "\n", s.Connection.ServerLine()}
	for _, tier := range plan.Protected {
		line := fmt.Sprintf("Protected: %s on %s in %s.", summarize.Count(tier.Removals, "thing"), summarize.Count(tier.Clusters, "cluster"), render.Printable(tier.Environment))
		text = append(text, s.Color(render.Red, line), "\n")
	}
	if _, err := io.WriteString(s.Env.Stderr, strings.Join(text, "")); err != nil {
		return err
	}
	names := unconfirmed(c, plan)
	if len(names) > 0 {
		return s.Prompter.Names(description, names)
	}
	return s.Prompter.Yes(description)
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
