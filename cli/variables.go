package cli

import (
	"maps"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/variables"
	"github.com/urfave/cli/v2"
)

// variableInEffect is a variable of a cluster, as cluster variables prints it.
type variableInEffect struct {
	Name   string       `json:"name"`
	Value  string       `json:"value"`  // references are replaced where they have a value
	Source string       `json:"source"` // the document that sets it: KIND/ID
	Text   api.Variable `json:"text"`   // as it is written there
}

func (s clusterCommands) variablesCommand() *cli.Command {
	return &cli.Command{
		Name: "variables", Usage: "Show the variables of a cluster, each with its value and the document that sets it", ArgsUsage: "NAME",
		Description: args.ExampleText("cluster variables demo-cluster-01"),
		Action: s.Connected(func(c *cli.Context, client conn.Client, operands []string) error {
			found, err := s.variablesOf(c, client, operands[0])
			if err != nil {
				return err
			}
			t := render.Table{Header: []string{"NAME", "VALUE", "SOURCE", "TEXT"}, Narrow: 3}
			names := make([]string, len(found))
			for i, v := range found {
				text, _ := variables.Text(v.Text) // the server has checked that it is one
				t.Rows, names[i] = append(t.Rows, []string{v.Name, v.Value, v.Source, text}), v.Name
			}
			return s.Print(c, render.Output{
				Document: found,
				Tables:   func() ([]render.Table, error) { return []render.Table{t}, nil },
				Names:    func() ([]string, error) { return names, nil },
			})
		}),
	}
}

// variablesOf returns the variables of a cluster by name.
func (s clusterCommands) variablesOf(c *cli.Context, client conn.Client, id string) ([]variableInEffect, error) {
	own, err := conn.ReceiveAs[api.Cluster](client.GetCluster(c.Context, id, nil))
	if err != nil {
		return nil, err
	}
	a, err := s.effectiveCluster(c, client, id)
	if err != nil {
		return nil, err
	}
	var effective api.Cluster
	if err := a.Decode(&effective); err != nil {
		return nil, err
	}
	sources := map[string]string{}
	if len(effective.Variables) > len(own.Variables) { // some are of layers
		layers, err := s.layersOf(c, client, effective.Layers)
		if err != nil {
			return nil, err
		}
		for _, l := range layers {
			for name := range l.Variables {
				sources[name] = kinds.Layers.Name + "/" + l.ID
			}
		}
	}
	for name := range own.Variables {
		sources[name] = kinds.Clusters.Name + "/" + id
	}
	found := []variableInEffect{}
	for _, name := range slices.Sorted(maps.Keys(effective.Variables)) {
		raw := effective.Variables[name]
		text, _ := variables.Text(raw)
		found = append(found, variableInEffect{name, expand(effective, text, maxNestedVariables), sources[name], raw})
	}
	return found, nil
}

// layersOf returns layers by rising priority.
func (s clusterCommands) layersOf(c *cli.Context, client conn.Client, ids []string) ([]api.Layer, error) {
	var layers []api.Layer
	for _, id := range ids {
		l, err := conn.ReceiveAs[api.Layer](client.GetLayer(c.Context, id, nil))
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	slices.SortFunc(layers, func(a, b api.Layer) int { return a.Priority - b.Priority })
	return layers, nil
}

// maxNestedVariables is the number of variables that the server takes a value through.
const maxNestedVariables = 8

// expand replaces the references of a text, as the server does; one without a value stays.
func expand(cluster api.Cluster, text string, depth int) string {
	out, err := variables.Expand(text, func(ref string) (string, error) {
		name, label := variables.Parts(ref)
		known := map[string]string{"${cluster.id}": cluster.ID, "${cluster.name}": cluster.ClusterName, "${cluster.dns}": cluster.ClusterDNS, "${cluster.environment}": cluster.Environment}
		if value, ok := known[ref]; ok {
			return value, nil
		}
		if value, ok := cluster.Labels[label]; ok && label != "" {
			return value, nil
		}
		if value, ok := variables.Text(cluster.Variables[name]); ok && depth > 1 {
			return expand(cluster, value, depth-1), nil
		}
		return ref, nil
	})
	if err != nil {
		return text // the server refuses it
	}
	return out
}
