package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// Assigning a definition again keeps the settings that the command line does not mention: with --all, a repeated command must not
// release a hotfix. A note lists the settings that differ from a new assignment; --reset releases them.

func resetFlag() cli.Flag {
	return &cli.BoolFlag{Name: "reset", Usage: "reset settings that are not given to those of a new assignment: enabled, and the catalog's version; patches stay"}
}

// assignment is a definition to assign, with the settings of the command line.
type assignment struct {
	id       string
	settings []kinds.Field // all settings of the kind
	given    map[string]any
}

// reset returns the settings of a new assignment, overlaid with the command line's.
func (a assignment) reset() map[string]any {
	values := map[string]any{}
	for _, f := range a.settings {
		values[f.Name] = f.Initial
	}
	maps.Copy(values, a.given)
	return values
}

// ownSettings returns the settings, as NAME=VALUE, in which an assignment differs from a new one, without those of the command
// line.
func (a assignment) ownSettings(n kinds.Kind, cluster json.RawMessage) ([]string, error) {
	entries, err := n.Entries(cluster)
	if err != nil {
		return nil, err
	}
	var own []string
	for _, entry := range entries {
		var id string
		if err := json.Unmarshal(entry["id"], &id); err != nil || id != a.id {
			continue
		}
		for _, f := range a.settings {
			value, there := entry[f.Name]
			if _, given := a.given[f.Name]; given || !there {
				continue
			}
			said := f.Name + "=" + render.Printable(render.Unquoted(value))
			if text := string(value); text != fmt.Sprint(f.Initial) && !slices.Contains(own, said) { // a setting may have several flags
				own = append(own, said)
			}
		}
	}
	return own, nil
}

// assignWith assigns a definition with settings to each cluster, and notes the settings that it kept or reset.
func (v kindCommands) assignWith(c *cli.Context, a assignment, on change.Targets) error {
	values := a.given
	if c.Bool("reset") {
		if len(on.Layers) > 0 {
			return args.Errorf("--reset is for clusters: unassign it from the layer, and assign it again")
		}
		values = a.reset()
	}
	ch := change.Change{Operations: on.Planner(v.AssignOperation("assign"), kinds.WithID(v.Kind, a.id, values))}
	cluster, single := on.Single()
	switch {
	case single && !c.IsSet("plan-hash"):
		ch.Show = func(_ conn.Client, answer conn.Answer) error {
			results, err := change.ResultsOf(answer)
			if err == nil {
				err = v.noteSettings(c, a, cluster, results[0])
			}
			if err != nil {
				return err
			}
			return v.PrintChange(c, kinds.Clusters.Output(results[0].Document))
		}
	case !c.Bool("reset") && len(on.Layers) == 0:
		ch.Show = func(client conn.Client, result conn.Answer) error {
			if err := v.PrintBatch(c, result); err != nil {
				return err
			}
			v.noteKeptSettingsOn(c, client, a, on)
			return nil
		}
	}
	return v.OnTargets(c, on, ch)
}

// noteSettings notes the settings that one cluster's assignment keeps, or that --reset releases.
func (v kindCommands) noteSettings(c *cli.Context, a assignment, cluster string, result api.OperationResult) error {
	if !c.Bool("reset") {
		return v.noteKeptSettings(a, cluster, result.Document)
	}
	released, err := a.ownSettings(v.Kind, result.Before)
	if err == nil && len(released) > 0 {
		v.Note("%s %s.", map[bool]string{false: "Released", true: "Would release"}[c.Bool("dry-run")], args.ListOf(released))
	}
	return err
}

// noteKeptSettings notes the settings that one cluster's assignment keeps.
func (v kindCommands) noteKeptSettings(a assignment, cluster string, document json.RawMessage) error {
	kept, err := a.ownSettings(v.Kind, document)
	if err != nil || len(kept) == 0 {
		return err
	}
	command := fmt.Sprintf("%s assign %s --cluster %s --reset", v.Command(), a.id, cluster)
	description := "release it"
	switch {
	case len(kept) == 1 && kept[0] == "enabled=false":
		description = "enable it"
	case slices.Contains(kept, "enabled=false"):
		description = "enable it and release the others"
	case len(kept) > 1:
		description = "release them"
	}
	v.Note("Kept %s. To %s: %s", args.ListOf(kept), description, command)
	return nil
}

// noteKeptSettingsOn notes which of several clusters keep settings that --reset would change.
func (v kindCommands) noteKeptSettingsOn(c *cli.Context, client conn.Client, a assignment, on change.Targets) {
	if c.Bool("dry-run") || v.Quiet { // a new assignment would look like a kept one
		return
	}
	ops := []change.Operation{on.Operation(v.AssignOperation("assign"), kinds.WithID(v.Kind, a.id, a.reset()))}
	plan, err := v.Plan(c, client, ops)
	if err != nil {
		v.Note("The settings that assignments keep could not be read: %v", err)
		return
	}
	var names []string
	for _, changed := range plan.Changes {
		names = append(names, changed.ID)
	}
	if len(names) > 0 {
		v.Note("Kept pins, or disabled: %s; --reset --plan shows them.", planview.Names(names, false))
	}
}
