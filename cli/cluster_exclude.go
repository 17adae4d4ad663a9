package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/exclusions"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// Inherited entries of clusters in tables, and the command that excludes them.

// effectiveCluster returns a cluster with the entries of its layers.
func (s *session) effectiveCluster(c *cli.Context, conn client, id string) (answer, error) {
	return receive(conn.GetCluster(c.Context, id, nil, query(url.Values{"view": {"effective"}})))
}

// effectiveTables returns a function that makes the table of clusters with their inherited entries. The function requests them only
// when a table is printed.
func effectiveTables(c *cli.Context, docs []json.RawMessage, effective func() (map[string]json.RawMessage, error)) func() ([]render.Table, error) {
	return func() ([]render.Table, error) {
		has, err := effective()
		if err != nil {
			return nil, err
		}
		t, err := effectiveTable(docs, has)
		if err == nil {
			t, err = withLabels(c, t, docs)
		}
		return []render.Table{t}, err
	}
}

// effectiveTable returns the table of clusters with counts as OWN+INHERITED where layers add entries, and with the layers for -o
// wide. has is the effective clusters by id; nil: the fleet has no layers.
func effectiveTable(docs []json.RawMessage, has map[string]json.RawMessage) (render.Table, error) {
	t, err := clusters.view.Table(docs...)
	if err != nil || has == nil {
		return t, err
	}
	for i, own := range docs {
		all, there := has[t.Rows[i][0]]
		if !there { // deleted in the meantime
			t.Rows[i] = append(t.Rows[i], "")
			continue
		}
		var doc api.Cluster
		if err := json.Unmarshal(all, &doc); err != nil {
			return t, err
		}
		for _, n := range definitions() {
			inherited, err := inheritedCount(n, own, all)
			if err != nil {
				return t, err
			}
			if column := slices.Index(t.Header, strings.ToUpper(n.name)+"S"); inherited > 0 && column >= 0 {
				t.Rows[i][column] += fmt.Sprintf("+%d", inherited)
			}
		}
		t.Rows[i] = append(t.Rows[i], strings.Join(doc.Layers, ","))
	}
	t.Header = append(t.Header, "LAYERS")
	return t, nil
}

// effectiveClusters reads effective clusters one by one, by id.
func (s *session) effectiveClusters(c *cli.Context, docs []json.RawMessage) (map[string]json.RawMessage, error) {
	conn, err := s.connection.client(c)
	if err != nil {
		return nil, err
	}
	out := make(map[string]json.RawMessage, len(docs))
	for _, doc := range docs {
		id, err := documentID(doc)
		if err != nil {
			return nil, err
		}
		has, err := s.effectiveCluster(c, conn, id)
		if err != nil {
			return nil, err
		}
		out[id] = has.body
	}
	return out, nil
}

// effectiveList reads a list of effective clusters, by id. Without layers it is nil, because the list would equal the documents.
func (s *session) effectiveList(c *cli.Context, limit int, page func(e ...edit) (*http.Response, error)) (map[string]json.RawMessage, error) {
	conn, err := s.connection.client(c)
	if err != nil {
		return nil, err
	}
	if layered, err := s.hasLayers(c.Context, conn); err != nil || !layered {
		return nil, err
	}
	docs, _, err := readPages(limit, 0, func(e ...edit) (*http.Response, error) {
		return page(append(e, query(url.Values{"view": {"effective"}}))...)
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]json.RawMessage, len(docs))
	for _, doc := range docs {
		id, err := documentID(doc)
		if err != nil {
			return nil, err
		}
		out[id] = doc
	}
	return out, nil
}

// inheritedCount returns the number of entries in a list of an effective cluster that its document does not have.
func inheritedCount(n documentKind, own, has json.RawMessage) (int, error) {
	says, err := n.entries(own)
	if err != nil {
		return 0, err
	}
	entries, err := n.entries(has)
	return len(entries) - len(says), err
}

func (s clusterCommands) excludeCommand() *cli.Command {
	return &cli.Command{
		Name:      "exclude",
		Usage:     "Exclude a cluster from entries of its layers, or include it again",
		ArgsUsage: "CLUSTER KIND/ID...",
		Description: "KIND/ID is " + exclusions.Forms(fileKindsOf(definitions())) + ". A component is switched off instead, with component disable.\n\n" +
			args.ExampleText("cluster exclude demo-cluster-01 namespace/team-b resource/network-policies/podinfo --plan", "cluster exclude demo-cluster-01 namespace/team-b --off"),
		Flags: slices.Concat(writeFlags(), []cli.Flag{yesFlag(), &cli.BoolFlag{Name: "off", Usage: "include it again"}}, plannedFlags()),
		Action: func(c *cli.Context) error {
			operands := c.Args().Slice()
			if len(operands) < 2 {
				return args.Errorf("%s takes CLUSTER, and at least one KIND/ID", c.Command.HelpName)
			}
			if err := args.CheckID("CLUSTER", operands[0]); err != nil {
				return err
			}
			x, err := exclusions.Parse(fileKindsOf(definitions()), operands[1:])
			if err != nil {
				return err
			}
			v := kindCommands{s.session, clusters}
			return v.performOn(c, change{recomputed: true, operations: func(conn client) ([]operation, error) {
				now, err := receive(conn.GetCluster(c.Context, operands[0], nil))
				if err != nil {
					return nil, err
				}
				was, err := exclusions.Read(now.body)
				patch := map[string]any{"excludes": x.Patch(was, c.Bool("off"))}
				return []operation{v.operation("patch", operands[0], map[string]any{"patch": patch, "if_match": now.etag})}, err
			}})
		},
	}
}
