package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/exclusions"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s clusterCommands) describeCommand() *cli.Command {
	return &cli.Command{
		Name: "describe", Usage: "Show a cluster with its components, other entries and last changes",
		ArgsUsage: "NAME",
		Action: s.connected(func(c *cli.Context, conn client, operands []string) error {
			text, document, err := s.describe(c, conn, operands[0])
			if err != nil {
				return err
			}
			out := render.Output{
				Document: document, Text: func(bool) string { return text },
				Names: func() ([]string, error) { return []string{clusters.name + "/" + operands[0]}, nil },
			}
			if !c.IsSet("output") {
				return s.printAs(c, "table", out)
			}
			return s.print(c, out)
		}),
	}
}

func (s clusterCommands) describe(c *cli.Context, conn client, id string) (string, json.RawMessage, error) {
	a, err := receive(conn.GetCluster(c.Context, id, nil))
	if err != nil {
		return "", nil, err
	}
	var doc api.Cluster
	if err := a.decode(&doc); err != nil {
		return "", nil, err
	}
	polled, err := receive(conn.PollPlatformComponents(c.Context, doc.ClusterDNS, nil))
	if err != nil {
		return "", nil, err
	}
	var inputs struct{ Inputs []api.FluxPlatformComponent }
	if err := polled.decode(&inputs); err != nil {
		return "", nil, err
	}
	changed, err := receive(conn.GetClusterHistory(c.Context, id, nil, query(url.Values{"limit": {"5"}})))
	var history []api.RevisionSummary
	if err == nil {
		err = changed.decode(&history)
	}
	if err != nil {
		return "", nil, err
	}
	effective, err := s.effectiveCluster(c, conn, id)
	if err != nil {
		return "", nil, err
	}
	by, err := s.loadOrigins(c, conn, id)
	if err != nil {
		return "", nil, err
	}
	text, err := describe(definitions(), a.body, effective.body, fleetview.Description{
		Inputs: inputs.Inputs, Origins: by, History: history,
		KindName: nameOfKind, Paint: func(code, text string) string { return s.paint(s.env.StdoutTerminal, code, text) }, Width: s.width(),
	})
	return text, a.body, err
}

// describe returns the text about a cluster with entries of these kinds. own is its document, effective the document with the entries
// of its layers.
func describe(kinds []documentKind, own, effective json.RawMessage, d fleetview.Description) (string, error) {
	if err := (answer{body: effective}).decode(&d.Cluster); err != nil {
		return "", err
	}
	excluded, err := exclusions.Read(own)
	if err != nil {
		return "", err
	}
	d.Excluded = excluded.IDs()
	for _, n := range kinds {
		if n.kind == components.kind {
			continue
		}
		entries, err := n.entries(effective)
		if err != nil {
			return "", err
		}
		of := fleetview.Entries{Title: strings.ToUpper(n.plural[:1]) + n.plural[1:], List: n.inputs.name, IDs: make([]string, len(entries))}
		for i, entry := range entries {
			if err := json.Unmarshal(entry["id"], &of.IDs[i]); err != nil {
				return "", fmt.Errorf("unexpected response of the server: %w", err)
			}
		}
		d.Entries = append(d.Entries, of)
	}
	return d.String(), nil
}

// loadOrigins requests the origins of a cluster's values.
func (s clusterCommands) loadOrigins(c *cli.Context, conn client, id string) (fleetview.Origins, error) {
	ex, err := receiveAs[api.Explanation](conn.ExplainCluster(c.Context, id, nil))
	return fleetview.OriginsOf(ex), err
}
