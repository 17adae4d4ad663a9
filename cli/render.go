package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// renderer shows the objects that the server renders.
type renderer struct{ *session }

func (s renderer) renderCommand() *cli.Command {
	return &cli.Command{
		Name:      "render",
		Usage:     "Show the Kubernetes objects that a cluster would end up with",
		ArgsUsage: "CLUSTER",
		Description: "The server renders the cluster's inputs with the ResourceSets that are shipped and the templates of the resource\n" +
			"types, or with your own, without access to a cluster. A file may contain several ResourceSets, and the\n" +
			"ResourceSetInputProviders whose defaultValues they use, so the output of bootstrap can be rendered. CLUSTER is an id\n" +
			"or a DNS name. It needs the right to plan. Without a server: inputs CLUSTER --static and flux-operator build rset.\n\n" +
			args.ExampleText(
				"render demo-cluster-01",
				"render demo-cluster-01 --type namespaces",
				"render demo-cluster-01 --type network-policies",
				"render demo-cluster-01 -f my-resourceset.yaml",
				"render demo-cluster-01 -o name",
			),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "ResourceSets in a YAML `FILE`; - is standard input (default: the shipped ones, and one for each resource type with a template)"},
			&cli.StringFlag{Name: "type", Usage: "only objects of inputs of this `TYPE`: " + args.ListOf(kinds.InputTypeNames()) + ", or a resource type (default: all)"},
		},
		Action: args.WithOperands(func(c *cli.Context, operands []string) error { return s.render(c, operands[0]) }),
	}
}

func (s renderer) render(c *cli.Context, cluster string) error {
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	list := c.String("type")
	if list != "" {
		if _, err := s.inputType(c, client, list); err != nil {
			return err
		}
	}
	sets, err := s.ResourceSets(c.String("file"))
	if err != nil {
		return err
	}
	made, err := conn.ReceiveAs[api.Rendering](client.Render(c.Context, nil, api.RenderRequest{Cluster: cluster, Type: list, ResourceSets: sets}))
	switch {
	case err != nil:
		return err
	case len(made.ResourceSets) == 0 && sets == "":
		return fmt.Errorf("the resource type %q has no template: pass a ResourceSet with -f", list)
	}
	var objects []json.RawMessage
	for _, set := range made.ResourceSets {
		if set.Error != "" {
			return errors.New(set.Error)
		}
		objects = append(objects, set.Objects...)
	}
	return s.printObjects(c, objects)
}

// printObjects writes Kubernetes objects as YAML documents for kubectl, or in the format of -o.
func (s *session) printObjects(c *cli.Context, objects []json.RawMessage) error {
	format, err := s.Format(c)
	if err != nil {
		return err
	}
	if !c.IsSet("output") || format == "yaml" {
		for _, obj := range objects {
			text, err := render.YAML(obj)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(s.Env.Stdout, "---\n%s", text); err != nil {
				return err
			}
		}
		return nil
	}
	named := func(cells func(kind, namespace, name string)) error {
		for _, raw := range objects {
			var obj struct {
				Kind     string
				Metadata struct{ Namespace, Name string }
			}
			if err := json.Unmarshal(raw, &obj); err != nil {
				return err
			}
			cells(obj.Kind, obj.Metadata.Namespace, obj.Metadata.Name)
		}
		return nil
	}
	return s.PrintAs(c, format, render.Output{
		Document: map[string]any{"apiVersion": "v1", "kind": "List", "items": append([]json.RawMessage{}, objects...)},
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"KIND", "NAMESPACE", "NAME"}}
			err := named(func(kind, namespace, name string) { t.Rows = append(t.Rows, []string{kind, namespace, name}) })
			return []render.Table{t}, err
		},
		Names: func() (names []string, err error) {
			err = named(func(kind, _, name string) { names = append(names, strings.ToLower(kind)+"/"+name) })
			return names, err
		},
	})
}
