package cli

import (
	"context"
	"maps"
	"net/http"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourcetype"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s *session) resourceTypeCommand() *cli.Command {
	v := kindCommands{s, kinds.ResourceTypes}
	cmd := v.documentCommand()
	for _, sub := range cmd.Subcommands {
		if sub.Name == "create" {
			v.addFromCRD(sub)
		}
	}
	return cmd
}

// addFromCRD adds --from-crd, which creates a resource type from a CustomResourceDefinition, to the command create.
func (v kindCommands) addFromCRD(create *cli.Command) {
	create.Description = args.ExampleText(v.Example, "resource-type create certificates --from-crd cert-manager.crds.yaml")
	create.Flags = append([]cli.Flag{&cli.StringFlag{
		Name:  "from-crd",
		Usage: "YAML `FILE` with a CustomResourceDefinition (-: standard input), from which schema, template and description are made; of several, the one whose plural is NAME",
	}}, create.Flags...)
	document := create.Action
	create.Action = func(c *cli.Context) error {
		if !c.IsSet("from-crd") {
			return document(c)
		}
		if c.IsSet("file") {
			return args.Errorf("--from-crd and --file exclude each other: set other fields with flags, or write the whole document with --file")
		}
		id, given, err := v.DocumentFrom(c, v.Kind)
		if err != nil {
			return err
		}
		file := c.String("from-crd")
		data, err := v.Input(file)
		if err != nil {
			return err
		}
		doc, err := resourcetype.FromCRD(data, input.SourceName(file), id, resourcetype.CRDOptions{Keep: given["removal"] == "keep"})
		if err != nil {
			return err
		}
		maps.Copy(doc, given)
		return v.create(c, id, doc)
	}
}

// typesOf returns the resource types of the fleet by id.
func (s *session) typesOf(ctx context.Context, client conn.Client) ([]api.ResourceType, error) {
	docs, err := s.ReadList(0, 0, func(e ...conn.Edit) (*http.Response, error) { return kinds.ResourceTypes.Calls.List(ctx, client, e...) })
	types := make([]api.ResourceType, len(docs))
	for i, doc := range docs {
		if err := (conn.Answer{Body: doc}).Decode(&types[i]); err != nil {
			return nil, err
		}
	}
	return types, err
}

// typeIDs returns the ids of typesOf.
func (s *session) typeIDs(ctx context.Context, client conn.Client) ([]string, error) {
	types, err := s.typesOf(ctx, client)
	ids := make([]string, len(types))
	for i, of := range types {
		ids[i] = of.ID
	}
	return ids, err
}

// typeOf returns one resource type.
func (s *session) typeOf(ctx context.Context, client conn.Client, id string) (api.ResourceType, error) {
	return conn.ReceiveAs[api.ResourceType](kinds.ResourceTypes.Calls.Get(ctx, client, id))
}
