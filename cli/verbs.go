package cli

import (
	"net/http"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/urfave/cli/v2"
)

// definitionCommand is the command of an assignable kind, with the subcommands that only this kind has.
func (v kindCommands) definitionCommand(own ...*cli.Command) *cli.Command {
	commands := []*cli.Command{v.createCommand()}
	if len(own) == 0 {
		commands = append(commands, v.setCommand())
	}
	return &cli.Command{
		Name: v.Name, Aliases: v.Aliases, Usage: v.Usage,
		Subcommands: append(append(commands, v.assignCommand(), v.unassignCommand()), own...),
	}
}

func (v kindCommands) setCommand() *cli.Command {
	cmd := &cli.Command{
		Name:      "set",
		Usage:     "Change the given fields of a " + v.Title + " that exists; the others stay",
		ArgsUsage: "NAME",
		Flags: slices.Concat(kinds.FlagsOf(v.Fields), []cli.Flag{
			change.FileFlag("fields of the document"),
			&cli.StringFlag{Name: "patch", Aliases: []string{"p"}, Usage: "in place of fields a `PATCH` as JSON or YAML: null removes, objects merge, lists replace (RFC 7396); @FILE: the patch in that file"},
			change.YesFlag(),
		}, change.WriteFlags(), change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			switch {
			case c.IsSet("patch"):
				return v.setPatch(c)
			case v.hasTargetFlags(c):
				return v.setFieldsOfClusters(c)
			}
			return v.setFields(c)
		},
	}
	if v.API == kinds.Clusters.API {
		cmd.Usage, cmd.ArgsUsage = "Change the given fields of clusters that exist; the others stay", "[NAME]"
		cmd.Description = "Without --cluster, --selector or --all the argument names the cluster. Several clusters are changed in one change.\n\n" +
			args.ExampleText("cluster set demo-cluster-01 --environment qa", "cluster set --selector region=eu --vm-image ubuntu-24.04 --plan")
		cmd.Flags = slices.Concat(change.ClusterFlags(), cmd.Flags)
	}
	return cmd
}

// hasTargetFlags reports whether flags select the clusters to set. Other kinds have fields of the same names.
func (v kindCommands) hasTargetFlags(c *cli.Context) bool {
	return v.API == kinds.Clusters.API && change.HasTargetFlags(c)
}

// setFields changes the fields of a document that flags or a file set.
func (v kindCommands) setFields(c *cli.Context) error {
	id, body, err := v.DocumentFrom(c, v.Kind)
	if err != nil {
		return err
	}
	if len(body) == 1 {
		return args.Errorf("nothing to change: set at least one field")
	}
	return v.PerformOn(c, v.Kind, change.Change{Operations: change.FixedOperations(v.ChangeOperations("update", id, body)...)})
}

// setFieldsOfClusters changes the fields of several clusters.
func (v kindCommands) setFieldsOfClusters(c *cli.Context) error {
	on, err := change.ClustersOf(c)
	if err != nil {
		return err
	}
	id, body, err := v.FieldsFrom(c, v.Kind)
	switch {
	case err != nil:
		return err
	case id != "":
		return args.Errorf("%s is about %q; the clusters are those of the flags", c.String("file"), id)
	case len(body) == 0:
		return args.Errorf("nothing to change: set at least one field")
	}
	return v.PerformOnEach(c, on, change.Change{}, func(id string) []change.Operation { return v.ChangeOperations("update", id, body) })
}

// setPatch merges the patch of a flag into a document, or into several clusters.
func (v kindCommands) setPatch(c *cli.Context) error {
	if !v.hasTargetFlags(c) {
		if _, err := args.Operands(c, "NAME"); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(v.Fields, func(f kinds.Field) bool { return c.IsSet(f.Flag) }) || c.IsSet("file") {
		return args.Errorf("--patch is in place of fields and of --file")
	}
	source, name := []byte(c.String("patch")), "-p"
	if file, inFile := strings.CutPrefix(c.String("patch"), "@"); inFile {
		var err error
		if source, err = v.Input(file); err != nil {
			return err
		}
		name = file
	}
	body, err := input.Object(source, name)
	if err != nil {
		return err
	}
	if !v.hasTargetFlags(c) {
		return v.mergePatch(c, c.Args().First(), body)
	}
	on, err := change.ClustersOf(c)
	if err != nil {
		return err
	}
	return v.PerformOnEach(c, on, change.Change{}, func(id string) []change.Operation {
		return []change.Operation{v.Operation("patch", id, map[string]any{"patch": body})}
	})
}

// createDocumentCommand is create of a kind that is not assigned to clusters.
func (v kindCommands) createDocumentCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "Create a " + v.Title,
		ArgsUsage: "NAME", Description: args.ExampleText(v.Example),
		Flags: slices.Concat(kinds.FlagsOf(v.Fields), []cli.Flag{updateFlag(), change.FileFlag("the document"), change.DryRunFlag(), change.YesFlag()}, change.PlannedFlags()),
		Action: func(c *cli.Context) error {
			id, doc, err := v.DocumentFrom(c, v.Kind)
			if err != nil {
				return err
			}
			return v.create(c, id, doc)
		},
	}
}

// documentCommand is the command of a kind that is not assigned to clusters, with the subcommands that only this kind has.
func (v kindCommands) documentCommand(own ...*cli.Command) *cli.Command {
	return &cli.Command{
		Name: v.Name, Aliases: v.Aliases, Usage: v.Usage,
		Subcommands: append([]*cli.Command{v.createDocumentCommand(), v.setCommand()}, own...),
	}
}

// mergePatch merges a patch into a document.
func (v kindCommands) mergePatch(c *cli.Context, id string, patch any) error {
	return v.PerformOn(c, v.Kind, change.Change{Operations: change.FixedOperations(v.Operation("patch", id, map[string]any{"patch": patch}))})
}

// changeOne creates or changes one document.
func (v kindCommands) changeOne(c *cli.Context, op change.Operation) error {
	return v.PerformOn(c, v.Kind, change.Change{Operations: change.FixedOperations(op)})
}

// send sends a request about a document, which is no operation of a batch, and prints the answer.
func (v kindCommands) send(c *cli.Context, request func(conn.Client) (*http.Response, error)) error {
	client, err := v.Connect(c)
	if err != nil {
		return err
	}
	a, err := conn.Receive(request(client))
	if err != nil {
		return err
	}
	return v.PrintChange(c, v.Output(a.Body))
}
