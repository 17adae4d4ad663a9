package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// rollouts are changes that reach clusters stage by stage.
var rollouts = documentKind{
	kind: "rollout", schema: "Rollout", name: "rollout", plural: "rollouts", title: "rollout",
	view: render.View{
		Header: []string{"ID", "STATE", "STARTED", "NEXT", "SERVED", "CHANGES", "REVISION", "DESCRIPTION", "UPDATED"},
		Narrow: 6,
		Row: render.RowOf(func(d api.Rollout) []string {
			next, served, all, changes := "-", 0, 0, make([]string, len(d.Changes))
			open := d.State != "completed" && d.State != "aborted"
			for i, s := range d.Stages {
				all += s.Clusters
				if i < d.Started && d.State != "aborted" {
					served += s.Clusters
				}
				if i == d.Started && open {
					next = s.Name
				}
			}
			for i, ch := range d.Changes {
				changes[i] = nameOfKind(ch.Kind) + "/" + ch.ID
			}
			return []string{
				d.ID, d.State, fmt.Sprintf("%d/%d", d.Started, len(d.Stages)), next, fmt.Sprintf("%d/%d", served, all), strings.Join(changes, ", "),
				strconv.FormatInt(d.Revision, 10), d.Description, render.Time(d.UpdatedAt),
			}
		}),
	},
	parts: func(document json.RawMessage) ([]render.Table, error) {
		var d api.Rollout
		if err := json.Unmarshal(document, &d); err != nil {
			return nil, fmt.Errorf("unexpected response of the server: %w", err)
		}
		stages := render.Table{Header: []string{"STAGE", "STATE", "CLUSTERS", "SELECTION", "AFFECTED", "CONFIRMED", "FAILED", "OFFLINE", "PENDING", "BEHIND", "UNKNOWN"}, Narrow: 8}
		for _, s := range d.Stages {
			row := []string{s.Name, s.State, strconv.Itoa(s.Clusters), summarize.StageSelection(s)}
			if p := s.Progress; p != nil {
				for _, n := range []int{p.Affected, p.Confirmed, p.Failed, p.Offline, p.Pending, p.Behind, p.Unknown} {
					row = append(row, strconv.Itoa(n))
				}
			} else { // the rollout is not open
				row = append(row, slices.Repeat([]string{"-"}, 7)...)
			}
			stages.Rows = append(stages.Rows, row)
		}
		tables := []render.Table{stages}
		waits := render.Table{Header: []string{"WAITING", "UNTIL", "MESSAGE"}}
		if w := d.Waiting; w != nil {
			waits.Rows = [][]string{{w.Reason, render.TimeOr(w.Until, "-"), w.Message}}
		} else if d.PausedBecause != "" {
			waits.Rows = [][]string{{"paused", "-", d.PausedBecause}}
		}
		if len(waits.Rows) > 0 {
			tables = append(tables, waits)
		}
		var notes [][]string
		if d.Automation != "" {
			notes = append(notes, []string{"proposed by " + summarize.ProposedBy(d.Automation)})
		}
		if d.GatesTrustSharedToken {
			notes = append(notes, []string{"gates count reports with the shared read token (GATES_TRUST_SHARED_TOKEN)"})
		}
		if len(notes) > 0 {
			tables = append(tables, render.Table{Header: []string{"NOTE"}, Rows: notes})
		}
		return tables, nil
	},
	api: calls{path: "/rollouts", revisions: "rollout"},
}

// rolloutCommands are the commands about rollouts.
type rolloutCommands struct{ *session }

func (s rolloutCommands) rolloutCommand() *cli.Command {
	v := kindCommands{s.session, rollouts}
	return &cli.Command{
		Name: "rollout", Aliases: []string{"rollouts"}, Usage: "Rollouts: changes that reach clusters stage by stage",
		Subcommands: []*cli.Command{
			s.createCommand(), v.listCommand(), v.getCurrentCommand(), s.watchCommand(), v.historyCommand(),
			s.actionCommand("start", "Serve the change to the clusters of the next stage", ""),
			s.actionCommand("approve", "Approve the next stage, or the one of --stage, which requires it to start; start --plan shows its effect before", ""),
			s.actionCommand("pause", "Let no stage start until resume; clusters keep what they are served", ""),
			s.actionCommand("resume", "Let stages start again", ""),
			s.actionCommand("skip", "Leave out the next stage: its clusters are in the next stage that selects them", ""),
			s.actionCommand("back", "Take the change back from the clusters of the last started stage, and pause", "take the change back from the clusters of a stage"),
			s.actionCommand("abort", "Take the change back from all clusters", "take the change back from all clusters"),
			s.actionCommand("complete", "Make the change of the documents, after the last stage; no cluster is served anything else", ""),
			v.deleteUnservedCommand("Delete a rollout that is completed or aborted; the history keeps it"),
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
			ids, err := arguments(c, "NAME")
			if err != nil {
				return err
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			line := progressLine{session: s.session, out: s.env.Stdout, terminal: s.env.StdoutTerminal, every: true}
			return s.follow(c, &line, func() (progress, error) { return watchedProgress(c, conn, ids[0]) })
		},
	}
}

// watchedProgress returns the progress of a rollout, done when only a person can continue it.
func watchedProgress(c *cli.Context, conn client, id string) (progress, error) {
	r, err := receiveAs[api.Rollout](rollouts.api.get(c.Context, conn, id))
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

// rolloutFlags make a change a rollout.
func rolloutFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "rollout", Usage: "do not make the change, but create a rollout of it with this `NAME`"},
		&cli.StringFlag{Name: "strategy", Usage: "with --rollout: the `STRATEGY` whose stages it copies"},
		&cli.StringSliceFlag{Name: "stage", Usage: "with --rollout, in place of --strategy: a `STAGE` NAME=SELECTOR, NAME=SELECTOR:10% or NAME=SELECTOR:3 (clusters); * selects all; repeat in the order of the stages"},
	}, advanceFlags()...)
}

func (s rolloutCommands) createCommand() *cli.Command {
	return &cli.Command{
		Name: "create", Usage: "Create a rollout from a file with operations and stages, or of the revert of a revision",
		ArgsUsage: "NAME",
		Description: "The file has the operations of a batch, and optionally stages and a description. A command that changes definitions or\n" +
			"layers creates a rollout of its change with --rollout and --stage.\n\n" +
			args.ExampleText("rollout create podinfo-6.9 -f rollout.yaml", "component set podinfo --component-version 6.9.0 --rollout podinfo-6.9 --stage dev=environment=dev --stage 'prod-10=environment=prod:10%'", "rollout create without-41 --revert 41 --strategy waves",
				"rollout create without-41 --revert 41 --strategy waves --advance automatic --soak 1h --confirmed 95% --max-failures 2 --on-failure back"),
		Flags: slices.Concat([]cli.Flag{
			fileFlag("the rollout"), &cli.IntFlag{Name: "revert", Usage: "in place of the file: the rollout reverts this `REVISION`"},
			&cli.StringSliceFlag{Name: "stage", Usage: "a `STAGE` as with --rollout, in place of those of the file; repeat for more"},
			&cli.StringFlag{Name: "strategy", Usage: "the `STRATEGY` whose stages it copies"},
			&cli.StringFlag{Name: "description", Usage: "description for people"},
		}, advanceFlags(), []cli.Flag{dryRunFlag(), &cli.StringFlag{Name: "plan-hash", Category: args.ChangeCategory, Usage: "confirm the removals of the plan with this `HASH`"}}),
		Action: withArguments(func(c *cli.Context, ids []string) error {
			body, err := s.requestedRollout(c)
			if err != nil {
				return err
			}
			hash, err := s.planHash(c)
			if err != nil {
				return err
			}
			conn, err := s.connect(c)
			if err != nil {
				return err
			}
			body["id"] = ids[0]
			if c.IsSet("description") {
				body["description"] = c.String("description")
			}
			if err := addSettings(c, body); err != nil {
				return err
			}
			a, err := s.createRollout(c, conn, body, hash)
			if err != nil {
				return err
			}
			return s.printChange(c, rollouts.outputOf(a.body, a.body))
		}),
	}
}

// advanceFlags are the flags for the way in which a rollout advances.
func advanceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "advance", Usage: "`MODE` of the rollout. manual: a person starts each stage; automatic: a person starts the first one, and the server does the rest"},
		&cli.StringFlag{Name: "soak", Usage: "shortest `DURATION` between the start of a stage and that of the next one"},
		&cli.StringFlag{Name: "confirmed", Usage: "`PERCENT` of the affected clusters of a stage that must have confirmed, such as 95%; 0%: it passes by time alone"},
		&cli.IntFlag{Name: "max-failures", Usage: "`NUMBER` of clusters of a stage that may fail"},
		&cli.StringFlag{Name: "deadline", Usage: "the rollout pauses this `DURATION` after the start of a stage that has not confirmed"},
		&cli.StringFlag{Name: "on-failure", Usage: "`ACTION` when more clusters fail: pause, or back to take the change back from the stage before"},
	}
}

// addSettings adds the settings of the flags to the body of a request. Fields of the gate without a flag stay.
func addSettings(c *cli.Context, body map[string]any) error {
	for flag, field := range map[string]string{"advance": "advance", "on-failure": "on_failure"} {
		if c.IsSet(flag) {
			body[field] = c.String(flag)
		}
	}
	set := map[string]any{}
	for _, field := range []string{"soak", "confirmed", "deadline"} {
		if c.IsSet(field) {
			set[field] = c.String(field)
		}
	}
	if c.IsSet("max-failures") {
		set["max_failures"] = c.Int("max-failures")
	}
	if len(set) == 0 {
		return nil
	}
	gate, ok := body["gate"].(map[string]any)
	if body["gate"] != nil && !ok {
		return args.Errorf("the gate of the file is not an object")
	}
	if gate == nil {
		gate = map[string]any{}
	}
	maps.Copy(gate, set)
	body["gate"] = gate
	return nil
}

// requestedRollout returns the rollout of the file, or of the revision to revert.
func (s rolloutCommands) requestedRollout(c *cli.Context) (map[string]any, error) {
	file, revision := c.String("file"), c.Int("revert")
	switch {
	case file != "" && c.IsSet("revert"):
		return nil, args.Errorf("%s takes either -f or --revert", c.Command.HelpName)
	case c.IsSet("revert") && revision < 1:
		return nil, args.Errorf("--revert: %d is not the number of a revision", revision)
	case c.IsSet("revert"):
		return map[string]any{"operations": []operation{{"op": "revert", "revision": revision}}}, nil
	case file == "":
		return nil, args.Errorf("%s needs the operations: use -f or --revert", c.Command.HelpName)
	}
	data, err := s.input(file)
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

// createRollout sends the request for a rollout, with the stages of the flags.
func (s *session) createRollout(c *cli.Context, conn client, body map[string]any, hash string) (answer, error) {
	if err := addStages(c, body); err != nil {
		return answer{}, err
	}
	if name := c.String("strategy"); name != "" {
		body["strategy"] = name
	}
	return receive(rollouts.api.create(c.Context, conn, body, append(writeEdits(c), planned(hash))...))
}

// addStages adds the stages of the flags to the body of a request.
func addStages(c *cli.Context, body map[string]any) error {
	stages := c.StringSlice("stage")
	if len(stages) == 0 {
		return nil
	}
	parsed := make([]map[string]any, len(stages))
	for i, text := range stages {
		var err error
		if parsed[i], err = stageOf(text); err != nil {
			return err
		}
	}
	body["stages"] = parsed
	return nil
}

// stageOf parses a stage of the command line.
func stageOf(text string) (map[string]any, error) {
	name, selector, ok := strings.Cut(text, "=")
	if !ok || name == "" || selector == "" {
		return nil, args.Errorf("--stage %q is not NAME=SELECTOR", text)
	}
	stage := map[string]any{"name": name}
	if at := strings.LastIndexByte(selector, ':'); at >= 0 {
		field, number := "count", selector[at+1:]
		if n, percent := strings.CutSuffix(number, "%"); percent {
			field, number = "percent", n
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return nil, args.Errorf("--stage %q: after the colon there must be a number of clusters, or a number and %%", text)
		}
		stage[field], selector = n, selector[:at]
	}
	if stage["selector"] = selector; selector == "*" {
		delete(stage, "selector")
		stage["all"] = true
	}
	return stage, nil
}

// inRollout returns a change that creates a rollout of ch, if --rollout is set.
func (s *session) inRollout(c *cli.Context, conn client, ch change) (change, error) {
	name := c.String("rollout")
	switch {
	case ch.planRequest != nil, !hasFlag(c, "rollout"): // an action on a rollout, or a document that clusters are not served
		return ch, nil
	case !c.IsSet("rollout"):
		for _, f := range rolloutFlags() {
			if name := f.Names()[0]; c.IsSet(name) {
				return ch, args.Errorf("--%s is for --rollout", name)
			}
		}
		return ch, nil
	case name == "":
		return ch, args.Errorf("--rollout must not be empty")
	case c.String("if-match") != "":
		return ch, args.Errorf("--if-match is about a document that changes; a rollout changes none yet")
	}
	requested, describe := ch.operations, ch.describe
	operations := func(conn client) ([]operation, error) {
		ops, err := requested(conn)
		if err == nil {
			err = notClusters(ops)
		}
		return ops, err
	}
	ch.operations = operations
	ch.description, ch.recomputed, ch.printsSummary = "", false, true
	ch.request = func(conn client, hash string) (answer, error) {
		ops, err := operations(conn)
		if err != nil {
			return answer{}, err
		}
		body := map[string]any{"id": name, "operations": ops}
		if err := addSettings(c, body); err != nil {
			return answer{}, err
		}
		a, err := s.createRollout(c, conn, body, hash)
		return a, describeLocations(ops, err, describe)
	}
	ch.show = func(_ client, a answer) error {
		if a.created || c.Bool("dry-run") {
			s.note("No cluster is served the change yet: start the first stage with: rollout start %s", name)
		} else {
			s.note("Nothing to change: the rollout %s makes this change already.", name)
		}
		return s.printChange(c, rollouts.outputOf(a.body, a.body))
	}
	if _, err := ch.operations(conn); err != nil { // invalid operations need no request
		return ch, err
	}
	_, err := receive(rollouts.api.get(c.Context, conn, name))
	ch.repeated = err == nil
	if apiclient.ErrorCode(err) == "not_found" {
		err = nil
	}
	return ch, err
}

// repeatRollout sends a change whose rollout exists. The server refuses it unless the rollout makes the same change; so there is no
// plan, and nothing to confirm.
func (s *session) repeatRollout(c *cli.Context, conn client, ch change) error {
	if c.Bool("plan") {
		if err := c.Set("dry-run", "true"); err != nil {
			return err
		}
	}
	a, err := ch.request(conn, "")
	if err != nil {
		return err
	}
	if c.Bool("plan") {
		s.note("Nothing to change: the rollout %s makes this change already.", c.String("rollout"))
		return nil
	}
	return ch.show(conn, a)
}

// notClusters refuses operations that change clusters, without a request.
func notClusters(ops []operation) error {
	for _, op := range ops {
		selects := slices.ContainsFunc([]string{"cluster_ids", "selector", "all"}, func(field string) bool { return op[field] != nil })
		if selects || op.Kind() == clusters.kind {
			return args.Errorf("--rollout: a rollout cannot change clusters; change a layer that matches them, with --layer or the commands of layers")
		}
	}
	return nil
}

// actionFlags are the flags of changes that are not operations, so a rollout cannot make them.
func actionFlags() []cli.Flag {
	hidden := []string{"rendered", "templates"}
	for _, f := range rolloutFlags() {
		hidden = append(hidden, f.Names()[0])
	}
	return slices.DeleteFunc(plannedFlags(), func(f cli.Flag) bool {
		return slices.Contains(hidden, f.Names()[0])
	})
}

func (s rolloutCommands) actionCommand(action, usage, question string) *cli.Command {
	flags := slices.Concat(writeFlags(), []cli.Flag{yesFlag()}, actionFlags())
	if slices.Contains([]string{"start", "approve", "skip", "back"}, action) {
		flags = append(flags, &cli.StringFlag{Name: "stage", Usage: "only if this is the `STAGE` that it concerns"})
	}
	return &cli.Command{
		Name: action, Usage: usage, ArgsUsage: "NAME", Flags: flags,
		Action: withArguments(func(c *cli.Context, ids []string) error {
			id, request := ids[0], map[string]any{"rollout": ids[0], "action": action}
			stage := url.Values{}
			if name := c.String("stage"); name != "" {
				stage, request["stage"] = url.Values{"stage": {name}}, name
			}
			return s.perform(c, change{
				operations: fixedOperations(), planRequest: request, description: question, unconfirmedInScripts: true, printsSummary: true,
				request: func(conn client, hash string) (answer, error) {
					return receive(send(c.Context, conn, http.MethodPost, rollouts.api.document(id)+"/"+action, nil, append(writeEdits(c), planned(hash), query(stage))))
				},
				show: func(_ client, a answer) error { return s.printChange(c, rollouts.outputOf(a.body, a.body)) },
			})
		}),
	}
}
