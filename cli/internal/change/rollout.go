package change

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/stages"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// rolloutFlags make a change a rollout.
func rolloutFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "rollout", Usage: "do not make the change, but create a rollout of it with this `NAME`"},
		&cli.StringFlag{Name: "strategy", Usage: "with --rollout: the `STRATEGY` whose stages it copies"},
		&cli.StringSliceFlag{Name: "stage", Usage: "with --rollout, in place of --strategy: a `STAGE` NAME=SELECTOR[:COUNT or :PERCENT%][:soak=DURATION][:approve], such as 'prod=environment=prod:10%:approve'; * selects all clusters; repeat in the order of the stages"},
	}, AdvanceFlags()...)
}

// AdvanceFlags are the flags for the way in which a rollout advances.
func AdvanceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "advance", Usage: "`MODE` of the rollout. manual: a person starts each stage; automatic: a person starts the first one, and the server does the rest"},
		&cli.StringFlag{Name: "soak", Usage: "shortest `DURATION` between the start of a stage and that of the next one"},
		&cli.StringFlag{Name: "confirmed", Usage: "`PERCENT` of the affected clusters of a stage that must have confirmed, such as 95%; 0%: it passes by time alone"},
		&cli.IntFlag{Name: "max-failures", Usage: "`NUMBER` of clusters of a stage that may fail"},
		&cli.StringFlag{Name: "deadline", Usage: "the rollout pauses this `DURATION` after the start of a stage that has not confirmed; default: the soak plus two hours"},
		&cli.StringFlag{Name: "on-failure", Usage: "`ACTION` when more clusters fail: pause, or back to take the change back from the stage before"},
		&cli.StringFlag{Name: "start-at", Usage: "with --advance automatic: start the first stage at this `TIME`, such as 2026-12-01T09:00:00Z, or 12h from now, without a person"},
	}
}

// AddSettings adds the settings of the flags to the body of a request. Fields of the gate without a flag stay.
func AddSettings(c *cli.Context, body map[string]any, now time.Time) error {
	for flag, field := range map[string]string{"advance": "advance", "on-failure": "on_failure"} {
		if c.IsSet(flag) {
			body[field] = c.String(flag)
		}
	}
	if c.IsSet("start-at") {
		at, err := args.FutureTime("start-at", c.String("start-at"), now)
		if err != nil {
			return err
		}
		body["start_at"] = render.Time(at)
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

// CreateRollout sends the request for a rollout, with the stages of the flags.
func (s *Engine) CreateRollout(c *cli.Context, client conn.Client, body map[string]any, hash string) (conn.Answer, error) {
	if err := AddStages(c, body); err != nil {
		return conn.Answer{}, err
	}
	if name := c.String("strategy"); name != "" {
		body["strategy"] = name
	}
	return conn.Receive(kinds.Rollouts.Calls.Create(c.Context, client, body, append(WriteEdits(c), Planned(hash))...))
}

// AddStages adds the stages of the flags to the body of a request.
func AddStages(c *cli.Context, body map[string]any) error {
	texts := c.StringSlice("stage")
	if len(texts) == 0 {
		return nil
	}
	parsed := make([]api.RolloutStage, len(texts))
	for i, text := range texts {
		var err error
		if parsed[i], err = stages.Parse(text); err != nil {
			return args.Errorf("--stage %v", err)
		}
	}
	body["stages"] = parsed
	return nil
}

// inRollout returns a change that creates a rollout of ch, if --rollout is set.
func (s *Engine) inRollout(c *cli.Context, client conn.Client, ch Change) (Change, error) {
	name := c.String("rollout")
	switch {
	case ch.PlanRequest != nil, !HasFlag(c, "rollout"): // an action on a rollout, or a document that clusters are not served
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
	requested, describe := ch.Operations, ch.Describe
	operations := func(client conn.Client) ([]Operation, error) {
		ops, err := requested(client)
		if err == nil {
			err = notClusters(ops)
		}
		return ops, err
	}
	ch.Operations = operations
	ch.Description, ch.Recomputed, ch.PrintsSummary = "", false, true
	ch.Request = func(client conn.Client, hash string) (conn.Answer, error) {
		ops, err := operations(client)
		if err != nil {
			return conn.Answer{}, err
		}
		body := map[string]any{"id": name, "operations": ops}
		if err := AddSettings(c, body, s.Env.Now()); err != nil {
			return conn.Answer{}, err
		}
		a, err := s.CreateRollout(c, client, body, hash)
		return a, DescribeLocations(ops, err, describe)
	}
	ch.stages = func(client conn.Client, hash string) (string, error) {
		if err := c.Set("dry-run", "true"); err != nil {
			return "", err
		}
		a, err := ch.Request(client, hash)
		if code := apiclient.ErrorCode(err); code == "forbidden" || code == "out_of_scope" { // the token may plan, and create no rollout
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return stageTable(a)
	}
	ch.Show = func(_ conn.Client, a conn.Answer) error {
		if a.Created || c.Bool("dry-run") {
			s.Note("No cluster is served the change yet: start the first stage with: rollout start %s", name)
		} else {
			s.Note("Nothing to change: the rollout %s makes this change already.", name)
		}
		return s.PrintChange(c, kinds.Rollouts.OutputOf(a.Body, a.Body))
	}
	if _, err := ch.Operations(client); err != nil { // invalid operations need no request
		return ch, err
	}
	_, err := conn.Receive(kinds.Rollouts.Calls.Get(c.Context, client, name))
	ch.repeated = err == nil
	if apiclient.ErrorCode(err) == "not_found" {
		err = nil
	}
	return ch, err
}

// stageTable returns the stages of a rollout with their clusters and gates, as text.
func stageTable(a conn.Answer) (string, error) {
	var r api.Rollout
	if err := a.Decode(&r); err != nil {
		return "", err
	}
	t := render.Table{Header: []string{"STAGE", "CLUSTERS", "SELECTION", "GATE"}}
	for _, stage := range r.Stages {
		t.Rows = append(t.Rows, []string{stage.Name, strconv.Itoa(stage.Clusters), summarize.StageSelection(stage), gateText(stage)})
	}
	var text strings.Builder
	text.WriteString("\n")
	err := render.Output{Tables: func() ([]render.Table, error) { return []render.Table{t}, nil }}.Write(&text, render.Style{Format: "table"})
	return text.String(), err
}

// gateText describes what must hold before the stage after this one starts.
func gateText(stage api.RolloutStageStatus) string {
	var parts []string
	if stage.Approval {
		parts = append(parts, "approval to start")
	}
	if g := stage.Gate; g != nil {
		failures := 0
		if g.MaxFailures != nil {
			failures = *g.MaxFailures
		}
		parts = append(parts, "soak "+g.Soak, g.Confirmed+" confirmed", fmt.Sprintf("at most %d failed", failures), "deadline "+g.Deadline)
	}
	return strings.Join(parts, ", ")
}

// repeatRollout sends a change whose rollout exists. The server refuses it unless the rollout makes the same change; so there is no
// plan, and nothing to confirm.
func (s *Engine) repeatRollout(c *cli.Context, client conn.Client, ch Change) error {
	if c.Bool("plan") {
		if err := c.Set("dry-run", "true"); err != nil {
			return err
		}
	}
	a, err := ch.Request(client, "")
	if err != nil {
		return err
	}
	if c.Bool("plan") {
		s.Note("Nothing to change: the rollout %s makes this change already.", c.String("rollout"))
		return nil
	}
	return ch.Show(client, a)
}

// notClusters refuses operations that change clusters, without a request.
func notClusters(ops []Operation) error {
	for _, op := range ops {
		selects := slices.ContainsFunc([]string{"cluster_ids", "selector", "all"}, func(field string) bool { return op[field] != nil })
		if selects || op.Kind() == kinds.Clusters.API {
			return args.Errorf("--rollout: a rollout cannot change clusters; change a layer that matches them, with --layer or the commands of layers")
		}
	}
	return nil
}

// ActionFlags are the flags of changes that are not operations, so a rollout cannot make them.
func ActionFlags() []cli.Flag {
	hidden := []string{"rendered", "templates"}
	for _, f := range rolloutFlags() {
		hidden = append(hidden, f.Names()[0])
	}
	return slices.DeleteFunc(PlannedFlags(), func(f cli.Flag) bool {
		return slices.Contains(hidden, f.Names()[0])
	})
}
