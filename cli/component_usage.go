package cli

import (
	"encoding/json"
	"net/http"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

func (s componentCommands) usageCommand() *cli.Command {
	return &cli.Command{
		Name: "usage", Usage: "Show which clusters run a component, at which version, and how many override the catalog",
		ArgsUsage: "NAME",
		Description: "Clusters with the same version share a line; OVERRIDING counts those with a setting of their own or of a layer instead of the catalog's; " +
			"explain names it. PATCHED counts those with values of their own or of a layer. " +
			"-o wide names the first 100, and get clusters --component NAME --component-version VERSION all.\n\n" +
			args.ExampleText("component usage podinfo", "get clusters --component podinfo --component-version 6.9.0"),
		Action: func(c *cli.Context) error {
			return s.printEntries(c, entries{
				view: fleetview.Usage, field: "variants", names: func(_ string, variants []json.RawMessage) ([]string, error) { return fleetview.UsageNames(variants) },
				ask: func(client conn.Client, id string) (*http.Response, error) {
					return client.GetPlatformComponentUsage(c.Context, id, nil)
				},
			})
		},
	}
}

// entries is a document about a component, shown as the table of a list in it.
type entries struct {
	view  render.View
	field string // name of the list
	ask   func(client conn.Client, id string) (*http.Response, error)
	names func(id string, list []json.RawMessage) ([]string, error) // for -o name
}

// printEntries requests and prints such a document for the component in the command line.
func (s componentCommands) printEntries(c *cli.Context, e entries) error {
	operands, err := args.Operands(c, "NAME")
	if err != nil {
		return err
	}
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	a, err := conn.Receive(e.ask(client, operands[0]))
	if err != nil {
		return err
	}
	var document map[string]json.RawMessage
	if err := a.Decode(&document); err != nil {
		return err
	}
	var list []json.RawMessage
	if raw, ok := document[e.field]; ok {
		if err := (conn.Answer{Body: raw}).Decode(&list); err != nil {
			return err
		}
	}
	out := kinds.Kind{View: e.view}.OutputOf(a.Body, list...)
	out.Names = func() ([]string, error) { return e.names(operands[0], list) }
	return s.Print(c, out)
}

func (s componentCommands) statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "Show the desired versions of a component, and how many clusters confirmed them", ArgsUsage: "NAME",
		Description: args.ExampleText("component status podinfo"),
		Action: func(c *cli.Context) error {
			return s.printEntries(c, entries{
				view: fleetview.Versions, field: "versions", names: func(id string, _ []json.RawMessage) ([]string, error) {
					return []string{kinds.Components.Name + "/" + id}, nil
				},
				ask: func(client conn.Client, id string) (*http.Response, error) {
					return client.GetPlatformComponentStatus(c.Context, id, nil)
				},
			})
		},
	}
}
