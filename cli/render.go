package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/resourceset"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
)

// renderer renders ResourceSets as Flux Operator does, without a cluster.
type renderer struct{ *session }

func (s renderer) renderCommand() *cli.Command {
	return &cli.Command{
		Name:      "render",
		Usage:     "Show the Kubernetes objects that a cluster would end up with",
		ArgsUsage: "CLUSTER",
		Description: "The cluster's inputs are read from the API and rendered here, with the ResourceSets that are shipped and the\n" +
			"templates of the resource types, or with your own, without access to a cluster. A file may contain several ResourceSets, and the ResourceSetInputProviders whose\n" +
			"defaultValues they use, so the output of bootstrap can be rendered. CLUSTER is an id or a DNS name.\n\n" +
			args.ExampleText(
				"render demo-cluster-01",
				"render demo-cluster-01 --type namespaces",
				"render demo-cluster-01 --type network-policies",
				"render demo-cluster-01 -f my-resourceset.yaml",
				"render demo-cluster-01 -o name",
			),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "ResourceSets in a YAML `FILE`; - is standard input (default: the shipped ones, and one for each resource type with a template)"},
			&cli.StringFlag{Name: "type", Usage: "only objects of inputs of this `TYPE`: " + args.ListOf(inputTypeNames()) + ", or a resource type (default: all)"},
		},
		Action: withArguments(func(c *cli.Context, operands []string) error { return s.render(c, operands[0]) }),
	}
}

func (s renderer) render(c *cli.Context, cluster string) error {
	conn, err := s.connect(c)
	if err != nil {
		return err
	}
	if t := c.String("type"); t != "" {
		if _, err := s.inputType(c, conn, t); err != nil {
			return err
		}
	}
	sets, err := s.resourceSets(c, conn, c.String("file"), c.String("type"))
	if err != nil {
		return err
	}
	dns, err := s.dnsOf(c, conn, cluster)
	if err != nil {
		return err
	}
	poll := pollOnce(func(name string) ([]resourceset.Input, error) {
		t, err := s.inputType(c, conn, name)
		if err != nil {
			return nil, fmt.Errorf("inputsFrom %q: %w", name, err)
		}
		body, err := receiveAs[struct{ Inputs []resourceset.Input }](conn.PollResources(c.Context, dns, t.name, nil))
		return body.Inputs, err
	})
	var objects []resourceset.Object
	for _, set := range sets {
		if t := c.String("type"); t != "" && !slices.Contains(set.Sources(), t) {
			continue
		}
		made, err := set.Render(poll)
		if err != nil {
			return err
		}
		objects = append(objects, made...)
	}
	return s.printObjects(c, objects)
}

// pollOnce caches polls by the name of the provider.
func pollOnce(poll func(name string) ([]resourceset.Input, error)) func(name string) ([]resourceset.Input, error) {
	known := map[string][]resourceset.Input{}
	return func(name string) ([]resourceset.Input, error) {
		if inputs, ok := known[name]; ok {
			return inputs, nil
		}
		inputs, err := poll(name)
		known[name] = inputs
		return inputs, err
	}
}

// resourceSets returns the ResourceSets of a file, or the shipped ones and those of the resource types; only must be among them.
func (s renderer) resourceSets(c *cli.Context, conn client, file, only string) ([]resourceset.Set, error) {
	var (
		text []byte
		err  error
	)
	if file == "" {
		text, err = s.shippedSets(c, conn, only)
	} else {
		text, err = s.environment().Input(file)
	}
	if err != nil {
		return nil, err
	}
	sets, err := resourceset.Read(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmp.Or(file, "the shipped ResourceSets"), err)
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s: there is no %s in it", file, resourceset.Kind)
	}
	for _, set := range sets {
		if err := set.Check(); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// shippedSets returns the ResourceSets of clusters with the shipped templates.
func (s renderer) shippedSets(c *cli.Context, conn client, only string) ([]byte, error) {
	types, err := s.typesOf(c.Context, conn)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, t := range inputTypes() {
		texts = append(texts, t.template)
	}
	for _, of := range types {
		switch {
		case of.Template != "":
			objects, err := objectsOfType(namespaces.inputs.template, of)
			if err != nil {
				return nil, err
			}
			text, err := resourceset.FormatYAML(objects)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		case of.ID == only:
			return nil, fmt.Errorf("the resource type %q has no template: pass a ResourceSet with -f", of.ID)
		}
	}
	return []byte(strings.Join(texts, "\n---\n")), nil
}

// objectsOfType returns the objects of a resource type, made from the shipped manifests of namespaces.
func objectsOfType(shipped string, of api.ResourceType) ([]resourceset.Object, error) {
	return resourceset.ForType(shipped, namespaces.inputs.name, of.ID, charts.Receipt+of.Template)
}

// printObjects writes Kubernetes objects as YAML documents for kubectl, or in the format of -o.
func (s *session) printObjects(c *cli.Context, objects []resourceset.Object) error {
	format, err := s.format(c)
	if err != nil {
		return err
	}
	if !c.IsSet("output") || format == "yaml" {
		text, err := resourceset.FormatYAML(objects)
		if err != nil {
			return err
		}
		_, err = io.WriteString(s.env.Stdout, text)
		return err
	}
	return s.printAs(c, format, render.Output{
		Document: resourceset.Object{"apiVersion": "v1", "kind": "List", "items": append([]resourceset.Object{}, objects...)},
		Tables: func() ([]render.Table, error) {
			t := render.Table{Header: []string{"KIND", "NAMESPACE", "NAME"}}
			for _, obj := range objects {
				t.Rows = append(t.Rows, []string{resourceset.Text(obj, "kind"), resourceset.Text(obj, "metadata", "namespace"), resourceset.Text(obj, "metadata", "name")})
			}
			return []render.Table{t}, nil
		},
		Names: func() ([]string, error) {
			names := make([]string, len(objects))
			for i, obj := range objects {
				names[i] = strings.ToLower(resourceset.Text(obj, "kind")) + "/" + resourceset.Text(obj, "metadata", "name")
			}
			return names, nil
		},
	})
}
