package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// layers say once what clusters have in common.
var layers = noun{
	kind: "layer", name: "layer", plural: "layers", title: "layer", list: "layers",
	usage:   "Layers: what clusters have in common, said once for all that a selector matches",
	example: "layer create prod-eu --priority 200 --selector environment=prod,region=eu --namespaces observability",
	fields: []field{
		textField("description", "description", "what it is, for people"),
		numberField("priority", "priority", "`NUMBER` that no other layer has; the higher one wins"),
		textField("selector", "selector", "which clusters: a label `SELECTOR`, also over environment and id; instead of --all"),
		boolField("all", "all", "every cluster"),
		referencesField("components", "platform_components", "component that these clusters have; repeat for more; replaces all"),
		referencesField("namespaces", "namespaces", "namespace that these clusters have; repeat for more; replaces all"),
		referencesField("rolebindings", "rolebindings", "role binding that these clusters have; repeat for more; replaces all"),
		boolField("deletion-protection", "deletion_protection", "protect these clusters, whatever their documents say"),
	},
	view: view{
		header: []string{"ID", "PRIORITY", "CLUSTERS", "COMPONENTS", "NAMESPACES", "ROLEBINDINGS", "REVISION", "DESCRIPTION", "UPDATED"},
		narrow: 7,
		row: rowOf(func(d api.Layer) []string {
			which := d.Selector
			if d.All {
				which = "all"
			}
			return []string{
				d.ID, strconv.Itoa(d.Priority), which, strconv.Itoa(len(d.PlatformComponents)), strconv.Itoa(len(d.Namespaces)),
				strconv.Itoa(len(d.Rolebindings)), strconv.FormatInt(d.Revision, 10), d.Description, when(d.UpdatedAt),
			}
		}),
	},
	api: calls{
		list: func(ctx context.Context, c client, e ...edit) (*http.Response, error) {
			return c.ListLayers(ctx, nil, e...)
		},
		get: func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error) {
			return c.GetLayer(ctx, id, nil, e...)
		},
		history: func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error) {
			return c.GetLayerHistory(ctx, id, nil, e...)
		},
		create: func(ctx context.Context, c client, body []byte, e ...edit) (*http.Response, error) {
			return c.CreateLayerWithBody(ctx, nil, contentJSON, bytes.NewReader(body), e...)
		},
		update: func(ctx context.Context, c client, id string, body []byte, e ...edit) (*http.Response, error) {
			return c.UpdateLayerWithBody(ctx, id, nil, contentJSON, bytes.NewReader(body), e...)
		},
		patch: func(ctx context.Context, c client, id string, body []byte, e ...edit) (*http.Response, error) {
			return c.PatchLayerWithBody(ctx, id, nil, contentMergePatch, bytes.NewReader(body), e...)
		},
		delete: func(ctx context.Context, c client, id string, e ...edit) (*http.Response, error) {
			return c.DeleteLayer(ctx, id, nil, e...)
		},
	},
}

func (s *session) layerCommand() *cli.Command {
	v := verbs{s, layers}
	remove := v.deleteCommand()
	remove.Usage = "Delete a layer: what only it gave leaves the clusters that it matched"
	remove.Flags = slices.DeleteFunc(remove.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "cascade") })
	return &cli.Command{
		Name: v.name, Aliases: []string{"layers"}, Usage: v.usage,
		Subcommands: []*cli.Command{
			v.listCommand(), v.getCommand(), v.historyCommand(), v.rollbackCommand(), v.createDocumentCommand(), v.updateCommand(),
			v.patchDocumentCommand(), remove,
		},
	}
}

// hasLayers tells whether the fleet has any. An older server knows of none, and neither does one that only serves polls.
func (s *session) hasLayers(ctx context.Context, conn client) (bool, error) {
	docs, err := s.all(0, 0, func(e ...edit) (*http.Response, error) { return layers.api.list(ctx, conn, e...) })
	if e, ok := errors.AsType[*apiclient.Error](err); ok && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed}, e.StatusCode) {
		return false, nil
	}
	return len(docs) > 0, err
}

// layerEntries are the entries of a layer as apply takes them.
func layerEntries(value json.RawMessage) (json.RawMessage, error) {
	return withNulls(value, "enabled", "oci_tag", "component_path", "component_version", "values_from")
}

// shortSaying is who says something, as tables have it.
func shortSaying(say api.Saying) string {
	kind := strings.ReplaceAll(say.Kind, "_", " ")
	if n, ok := nounOf(say.Kind); ok {
		kind = n.name
	}
	return fmt.Sprintf("%s/%s", kind, say.ID)
}
