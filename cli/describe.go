package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/exclusions"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/fleetview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

func (s clusterCommands) describeCommand() *cli.Command {
	return &cli.Command{
		Name: "describe", Usage: "Show a cluster with its components, other entries and last changes",
		ArgsUsage: "NAME",
		Action: s.Connected(func(c *cli.Context, client conn.Client, operands []string) error {
			text, document, err := s.describe(c, client, operands[0])
			if err != nil {
				return err
			}
			out := render.Output{
				Document: document, Text: func(bool) string { return text },
				Names: func() ([]string, error) { return []string{kinds.Clusters.Name + "/" + operands[0]}, nil },
			}
			if !c.IsSet("output") {
				return s.PrintAs(c, "table", out)
			}
			return s.Print(c, out)
		}),
	}
}

func (s clusterCommands) describe(c *cli.Context, client conn.Client, id string) (string, json.RawMessage, error) {
	a, err := conn.Receive(client.GetCluster(c.Context, id, nil))
	if err != nil {
		return "", nil, err
	}
	var doc api.Cluster
	if err := a.Decode(&doc); err != nil {
		return "", nil, err
	}
	inputs, err := conn.ReceiveAs[struct{ Inputs []api.FluxPlatformComponent }](client.PollPlatformComponents(c.Context, doc.ClusterDNS, nil))
	if err != nil {
		return "", nil, err
	}
	history, err := conn.ReceiveAs[[]api.RevisionSummary](client.GetClusterHistory(c.Context, id, nil, conn.Query(url.Values{"limit": {"5"}})))
	if err != nil {
		return "", nil, err
	}
	effective, err := s.effectiveCluster(c, client, id)
	if err != nil {
		return "", nil, err
	}
	by, err := s.loadOrigins(c, client, id)
	if err != nil {
		return "", nil, err
	}
	text, err := describe(kinds.Definitions(), a.Body, effective.Body, fleetview.Description{
		Inputs: inputs.Inputs, Origins: by, History: history,
		KindName: kinds.NameOf, Paint: func(code, text string) string { return s.Paint(s.Env.StdoutTerminal, code, text) }, Width: s.Width(),
	})
	return text, a.Body, err
}

// describe returns the text about a cluster with entries of these kinds. own is its document, effective the document with the entries
// of its layers.
func describe(all []kinds.Kind, own, effective json.RawMessage, d fleetview.Description) (string, error) {
	if err := (conn.Answer{Body: effective}).Decode(&d.Cluster); err != nil {
		return "", err
	}
	excluded, err := exclusions.Read(own)
	if err != nil {
		return "", err
	}
	d.Excluded = excluded.IDs()
	for _, n := range all {
		if n.API == kinds.Components.API {
			continue
		}
		entries, err := n.Entries(effective)
		if err != nil {
			return "", err
		}
		of := fleetview.Entries{Title: strings.ToUpper(n.Plural[:1]) + n.Plural[1:], List: n.Inputs.Name, IDs: make([]string, len(entries))}
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
func (s clusterCommands) loadOrigins(c *cli.Context, client conn.Client, id string) (fleetview.Origins, error) {
	ex, err := conn.ReceiveAs[api.Explanation](client.ExplainCluster(c.Context, id, nil))
	return fleetview.OriginsOf(ex), err
}
