package cli

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// ownerFlags set the field manager of a change of values.
func ownerFlags() []cli.Flag {
	return []cli.Flag{
		fieldManagerFlag("own the given values as this `MANAGER`: other managers cannot change them without --force"),
		&cli.BoolFlag{Name: "force", Usage: "take over values that another manager owns, instead of failing"},
		&cli.BoolFlag{Name: "apply", Usage: "apply all values of this manager: its other values are removed, unless another manager owns them, too"},
	}
}

func fieldManagerFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "field-manager", Usage: usage}
}

// ownershipCommands show and release values of field managers.
type ownershipCommands struct{ *session }

// writeValues changes values of a component on one cluster, and returns them before and after.
func (s ownershipCommands) writeValues(c *cli.Context, conn client, cluster, component string, body json.RawMessage) (before, after map[string]json.RawMessage, a answer, err error) {
	shared := c.IsSet("field-manager") || c.Bool("force") || c.Bool("apply")
	was, a, err := s.retryOnStale(c, conn, cluster, func(_ answer, unchanged edit) (answer, error) {
		edits := append(writeEdits(c), unchanged)
		if shared {
			return s.writeShared(c, conn, cluster, component, body, edits)
		}
		return receive(clusters.api.patch(c.Context, conn, cluster, map[string]any{"patches": map[string]any{component: body}}, edits...))
	})
	if err != nil {
		return nil, nil, a, err
	}
	if before, err = patchesOf(was.body, component); err != nil {
		return nil, nil, a, err
	}
	if !shared {
		after, err = patchesOf(a.body, component)
		return before, after, a, err
	}
	var owned api.OwnedPatches
	if err := a.decode(&owned); err != nil {
		return nil, nil, a, err
	}
	return before, owned.Values, a, nil
}

func (s ownershipCommands) writeShared(c *cli.Context, conn client, cluster, component string, body json.RawMessage, edits []edit) (answer, error) {
	edits = append(edits, managerEdit(c))
	if c.Bool("force") {
		edits = append(edits, query(url.Values{"force": {"true"}}))
	}
	if c.Bool("apply") {
		return receive(conn.ApplyPatchesWithBody(c.Context, cluster, component, nil, contentJSON, bytes.NewReader(body), edits...))
	}
	return receive(conn.PatchPatchesWithBody(c.Context, cluster, component, nil, contentMergePatch, bytes.NewReader(body), edits...))
}

func managerEdit(c *cli.Context) edit {
	if name := c.String("field-manager"); name != "" {
		return query(url.Values{"field_manager": {name}})
	}
	return query(nil)
}

func (s ownershipCommands) ownershipCommand() *cli.Command {
	return &cli.Command{
		Name: "ownership", Usage: "Show which manager owns which values of a component on a cluster",
		ArgsUsage: "CLUSTER COMPONENT",
		Action: s.connected(func(c *cli.Context, conn client, operands []string) error {
			a, err := receive(conn.GetPatches(c.Context, operands[0], operands[1], nil))
			if err != nil {
				return err
			}
			out, err := ownershipOf(a, operands[0], operands[1])
			if err != nil {
				return err
			}
			return s.print(c, out)
		}),
	}
}

func (s ownershipCommands) relinquishCommand() *cli.Command {
	return &cli.Command{
		Name: "relinquish", Usage: "Release every value that a manager owns of a component on clusters; values without another owner are removed",
		ArgsUsage: "NAME " + targetsUsage,
		Flags: slices.Concat(targetFlags(), []cli.Flag{
			fieldManagerFlag("the `MANAGER` (required)"),
			&cli.BoolFlag{Name: "retain", Usage: "keep the values, without an owner"}, yesFlag(),
		}, writeFlags(), plannedFlags()),
		Action: func(c *cli.Context) error {
			id, on, err := assignmentOf(c)
			if err != nil {
				return err
			}
			manager, err := required(c, "field-manager")
			if err != nil {
				return err
			}
			fields := withID(components, id, map[string]any{"field_manager": manager})
			if c.Bool("retain") {
				fields["retain"] = true
			}
			ch := change{operations: on.planner("relinquish_values", fields)}
			if cluster, single := on.single(); single && !c.IsSet("plan-hash") {
				ch.request = func(conn client, _ string) (answer, error) { return s.relinquish(c, conn, cluster, id) }
				ch.show = func(_ client, a answer) error {
					out, err := ownershipOf(a, cluster, id)
					if err != nil {
						return err
					}
					return s.printChange(c, out)
				}
			}
			return s.perform(c, ch)
		},
	}
}

// relinquish releases a manager's values on one cluster.
func (s ownershipCommands) relinquish(c *cli.Context, conn client, cluster, component string) (answer, error) {
	edits := append(writeEdits(c), managerEdit(c))
	if c.Bool("retain") {
		edits = append(edits, query(url.Values{"retain": {"true"}}))
	}
	return receive(conn.RelinquishPatches(c.Context, cluster, component, nil, edits...))
}

// ownershipOf decodes values with their managers as output.
func ownershipOf(a answer, cluster, component string) (render.Output, error) {
	var owned api.OwnedPatches
	err := a.decode(&owned)
	return fleetview.Ownership(owned, a.body, clusters.name+"/"+cluster, components.name+"/"+component), err
}
