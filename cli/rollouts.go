package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s rolloutCommands) rolloutCommand() *cli.Command {
	return &cli.Command{
		Name: "rollout", Aliases: kinds.Rollouts.Aliases, Usage: "Rollouts: changes that reach clusters stage by stage",
		Subcommands: []*cli.Command{
			s.createCommand(), s.watchCommand(),
			s.actionCommand("start", "Serve the change to the clusters of the next stage", ""),
			s.actionCommand("approve", "Approve the next stage, or the one of --stage, which requires it to start; start --plan shows its effect before", ""),
			s.actionCommand("pause", "Let no stage start until resume; clusters keep what they are served", ""),
			s.actionCommand("resume", "Let stages start again", ""),
			s.actionCommand("skip", "Leave out the next stage: its clusters are in the next stage that selects them", ""),
			s.actionCommand("back", "Take the change back from the clusters of the last started stage, and pause", "take the change back from the clusters of a stage"),
			s.actionCommand("abort", "Take the change back from all clusters", "take the change back from all clusters"),
			s.actionCommand("complete", "Make the change of the documents, after the last stage; no cluster is served anything else", ""),
		},
	}
}

func (s rolloutCommands) watchCommand() *cli.Command {
	return &cli.Command{
		Name: "watch", Usage: "Show the progress of a rollout until it completes, pauses, waits for an approval or is aborted", ArgsUsage: "NAME",
		Description: "Prints a line for each change. wait --rollout waits for the confirmations of clusters.\n\n" +
			args.ExampleText("rollout watch podinfo-6.9", "rollout watch podinfo-6.9 --exit-status --within 8h"),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "exit-status", Usage: "exit with 1 unless the rollout completes"},
			&cli.DurationFlag{Name: "within", Usage: "the maximum `TIME` to watch, after which the exit code is 2; default: no limit"},
			&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "interval between two requests"},
		},
		Action: func(c *cli.Context) error {
			ids, err := args.Operands(c, "NAME")
			if err != nil {
				return err
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			line := progressLine{session: s.session, out: s.Env.Stdout, terminal: s.Env.StdoutTerminal, every: true}
			return s.follow(c, &line, func() (progress, error) { return watchedProgress(c, client, ids[0]) })
		},
	}
}

// watchedProgress returns the progress of a rollout, done when only a person can continue it.
func watchedProgress(c *cli.Context, client conn.Client, id string) (progress, error) {
	r, err := conn.ReceiveAs[api.Rollout](kinds.Rollouts.Calls.Get(c.Context, client, id))
	if err != nil {
		return progress{}, err
	}
	p := progress{text: describeRollout(&r, r.Stages)}
	approval := r.Waiting != nil && r.Waiting.Reason == "approval"
	if p.done = approval || slices.Contains([]string{"paused", "completed", "aborted"}, r.State); p.done && r.State != "completed" && c.Bool("exit-status") {
		p.failed = fmt.Errorf("rollout %q is not completed", r.ID)
	}
	return p, nil
}

func (s rolloutCommands) createCommand() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "Create a rollout from a file with operations and stages",
		ArgsUsage: "[NAME]",
		Description: "The file has the operations of a batch, and optionally stages and a description. A command that changes definitions or\n" +
			"layers creates a rollout of its change with --rollout and --stage.\n\n" +
			args.ExampleText("rollout create --template > rollout.yaml", "rollout create podinfo-6.9 -f rollout.yaml", "component set podinfo --component-version 6.9.0 --rollout podinfo-6.9 --stage dev=environment=dev --stage 'prod-10=environment=prod:10%'", "revision revert 41 --rollout without-41 --strategy waves",
				"rollout create podinfo-6.9 -f rollout.yaml --strategy waves --advance automatic --soak 1h --confirmed 95% --max-failures 2 --on-failure back"),
		Flags: slices.Concat([]cli.Flag{
			change.FileFlag("the rollout"),
			&cli.StringSliceFlag{Name: "stage", Usage: "a `STAGE` as with --rollout, in place of those of the file; repeat for more"},
			&cli.StringFlag{Name: "strategy", Usage: "the `STRATEGY` whose stages it copies"},
			&cli.StringFlag{Name: "description", Usage: "description for people"},
			&cli.BoolFlag{Name: "template", Usage: "print a file to edit, and create nothing"},
		}, change.AdvanceFlags(), []cli.Flag{change.DryRunFlag(), &cli.StringFlag{Name: "plan-hash", Category: args.ChangeCategory, Usage: "confirm the removals of the plan with this `HASH`"}}),
		Action: func(c *cli.Context) error {
			if c.Bool("template") {
				_, err := io.WriteString(s.Env.Stdout, rolloutTemplate)
				return err
			}
			ids, err := args.Operands(c, "NAME")
			if err != nil {
				return err
			}
			body, err := s.requestedRollout(c)
			if err != nil {
				return err
			}
			hash, err := s.PlanHash(c)
			if err != nil {
				return err
			}
			client, err := s.Connect(c)
			if err != nil {
				return err
			}
			body["id"] = ids[0]
			if c.IsSet("description") {
				body["description"] = c.String("description")
			}
			if err := change.AddSettings(c, body, s.Env.Now()); err != nil {
				return err
			}
			a, err := s.CreateRollout(c, client, body, hash)
			if err != nil {
				return err
			}
			return s.PrintChange(c, kinds.Rollouts.OutputOf(a.Body, a.Body))
		},
	}
}

// rolloutTemplate is a file for rollout create, with each field that people set.
const rolloutTemplate = `# Edit this file, then: flux-resourceset-cli rollout create NAME -f FILE --dry-run
description: CHG-1234
operations: # the change, as in a batch; component set, layer set and others make it with --rollout NAME
- {op: patch, kind: platform_component, id: podinfo, patch: {component_version: 6.9.0}}
stages: # in this order; the clusters of no stage are in a last one, rest
- name: dev
  selector: environment=dev # or cluster_ids: [dev-01], or all: true
  gate: {soak: 24h}
- name: qa
  selector: environment=qa
- name: prod-10
  selector: environment=prod
  percent: 10 # of these clusters, or count: 3
  approval: true # rollout approve NAME
- name: prod
  selector: environment=prod
advance: automatic # after a person has started the first stage; manual: a person starts each stage
# start_at: "2026-12-01T09:00:00Z" # the server starts the first stage too; a stage may have one as well
gate: {soak: 30m, confirmed: 100%, max_failures: 0} # of the stages without their own; the deadline is the soak plus two hours
on_failure: pause # or back: take the change back from the stage before
# Hours of this rollout. For hours in the time zone of each cluster: flux-resourceset-cli freeze create --help
windows:
- {days: [tue, wed, thu], from: "10:00", to: "16:00", tz: Europe/Berlin}
`

// requestedRollout returns the rollout of the file.
func (s rolloutCommands) requestedRollout(c *cli.Context) (map[string]any, error) {
	file := c.String("file")
	if file == "" {
		return nil, args.Errorf("%s needs the operations: use -f, or --rollout of the command that makes the change", c.Command.HelpName)
	}
	data, err := s.Input(file)
	if err != nil {
		return nil, err
	}
	object, err := input.Object(data, file)
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	return body, json.Unmarshal(object, &body)
}

func (s rolloutCommands) actionCommand(action, usage, question string) *cli.Command {
	flags := slices.Concat(change.WriteFlags(), []cli.Flag{change.YesFlag()}, change.ActionFlags())
	if slices.Contains([]string{"start", "approve", "skip", "back"}, action) {
		flags = append(flags, &cli.StringFlag{Name: "stage", Usage: "only if this is the `STAGE` that it concerns"})
	}
	return &cli.Command{
		Name: action, Usage: usage, ArgsUsage: "NAME", Flags: flags,
		Action: args.WithOperands(func(c *cli.Context, ids []string) error {
			id, request := ids[0], map[string]any{"rollout": ids[0], "action": action}
			stage := url.Values{}
			if name := c.String("stage"); name != "" {
				stage, request["stage"] = url.Values{"stage": {name}}, name
			}
			return s.Perform(c, change.Change{
				Operations: change.FixedOperations(), PlanRequest: request, Description: question, UnconfirmedInScripts: true, PrintsSummary: true,
				Request: func(client conn.Client, hash string) (conn.Answer, error) {
					return conn.Receive(conn.Send(c.Context, client, http.MethodPost, kinds.Rollouts.Calls.Document(id)+"/"+action, nil, append(change.WriteEdits(c), change.Planned(hash), conn.Query(stage))))
				},
				Show: func(_ conn.Client, a conn.Answer) error {
					return s.PrintChange(c, kinds.Rollouts.OutputOf(a.Body, a.Body))
				},
			})
		}),
	}
}
