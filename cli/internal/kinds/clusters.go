package kinds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// Clusters are the clusters, with what they are assigned.
var Clusters = Kind{
	API: "cluster", Schema: "Cluster", Name: "cluster", Plural: "clusters", Title: "cluster", List: "clusters",
	Aliases: []string{"clusters"}, Usage: "Clusters and their assignments", Labeled: true,
	Example: "cluster create edge-01 --dns edge-01.example.com --environment dev --label region=eu --component podinfo",
	Fields: slices.Concat([]Field{
		textField("dns", "cluster_dns", "DNS `NAME` under which the cluster polls"),
		textField("environment", "environment", "`TIER`: dev, qa, uat, prod, or those in the server's configuration"),
		textField("name", "cluster_name", "display `NAME` (default: the id)"),
		parsedField("label", "labels", "label `KEY=VALUE`; repeat for more; replaces all labels", input.Pairs),
		variablesField("variable of the cluster"),
	}, referenceFields("assign this %s"), []Field{
		boolField("deletion-protection", "deletion_protection", "refuse to delete the cluster or change its DNS name"),
		numberField("node-count", "node_count", "number of nodes, for your information"),
		textField("vm-image", "vm_image", "`IMAGE` of the nodes, for your information"),
		textField("k0s-version", "k0s_version", "`VERSION` of k0s, for your information"),
	}),
	Filters: ClusterFilters,
	View:    clusterView(),
	Calls:   conn.Calls{Path: "/clusters"},
}

// referenceFields are the lists of a document with the ids of each kind that is assigned to clusters. usage has a %s for the kind.
func referenceFields(usage string) []Field {
	var fields []Field
	for _, n := range Definitions() {
		fields = append(fields, parsedField(n.Name, n.List, fmt.Sprintf(usage, n.Word)+", by `ID`; repeat for more; replaces all", input.References))
	}
	return fields
}

// countHeader has a column for the number of entries in each of these lists.
func countHeader() []string {
	var header []string
	for _, n := range Definitions() {
		header = append(header, strings.ToUpper(n.Name)+"S")
	}
	return header
}

// countCells counts the entries in each of these lists of a document.
func countCells(document json.RawMessage) ([]string, error) {
	var cells []string
	for _, n := range Definitions() {
		entries, err := n.Entries(document)
		if err != nil {
			return nil, err
		}
		cells = append(cells, strconv.Itoa(len(entries)))
	}
	return cells, nil
}

// clusterView counts the assignments of each kind.
func clusterView() render.View {
	return render.View{
		Header: slices.Concat([]string{"ID", "ENVIRONMENT", "DNS"}, countHeader(), []string{"REVISION", "PINNED", "NAME", "PROTECTED", "LABELS", "UPDATED"}),
		Narrow: 4 + len(Definitions()), Mark: true,
		Row: func(raw json.RawMessage) ([]string, error) {
			counts, err := countCells(raw)
			if err != nil {
				return nil, err
			}
			return render.RowOf(func(d api.Cluster) []string {
				pinned := ""
				if d.Pinned != nil {
					pinned = d.Pinned.Reason
				}
				return slices.Concat([]string{d.ID, d.Environment, d.ClusterDNS}, counts, []string{
					strconv.FormatInt(d.Revision, 10), pinned, d.ClusterName, strconv.FormatBool(d.DeletionProtection), render.Labels(d.Labels), render.Time(d.UpdatedAt),
				})
			})(raw)
		},
	}
}

// ClusterFilters are the filters of lists of clusters.
func ClusterFilters() []Filter {
	return []Filter{
		{&cli.StringFlag{Name: "environment", Aliases: []string{"e"}, Usage: "only clusters of this `TIER`"}, "environment"},
		{&cli.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "only clusters that match this label `SELECTOR`, such as 'region in (eu),team=web'"}, "selector"},
		{&cli.StringFlag{Name: "component", Usage: "only clusters that are assigned this `COMPONENT`"}, "component"},
		{&cli.StringFlag{Name: "component-version", Usage: "with --component: only clusters that run this `VERSION` of it"}, "component_version"},
		{&cli.StringFlag{Name: "oci-tag", Usage: "with --component: only clusters that have this `TAG` of it"}, "oci_tag"},
		{&cli.StringFlag{Name: "image", Usage: "only clusters with an enabled component that declares this `IMAGE` or artifact: NAME, NAME:TAG, :TAG, NAME@DIGEST or DIGEST, of which seven digits are enough"}, "image"},
		{&cli.StringFlag{Name: "dns", Usage: "only the cluster with this DNS `NAME`"}, "cluster_dns"},
		{&cli.BoolFlag{Name: "pinned", Usage: "only pinned clusters"}, "pinned"},
		{&cli.BoolFlag{Name: "drifted", Usage: "only clusters on which objects of a Helm release differ from what Flux installed, according to events of the last day"}, "drifted"},
		{&cli.BoolFlag{Name: "deleted", Usage: "only deleted clusters whose Flux is still served empty lists"}, "deleted"},
	}
}
