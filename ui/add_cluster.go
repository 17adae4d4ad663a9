package ui

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/charts"
	"github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/resourceset"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
)

// addClusterForm creates a cluster. Its address is not below that of the clusters, whose ids are free.
func addClusterForm(req *pageRequest) (changeForm, error) {
	field := func(name string) string { return strings.TrimSpace(req.query(name)) }
	in := &clusterInput{ID: field("id"), DNS: field("dns"), Environment: field("environment"), Labels: field("labels")}
	form := changeForm{
		Headline: "Add a cluster", Button: "Add the cluster", NavSection: "clusters", Crumbs: []pageLink{{"Clusters", link("clusters")}}, Cluster: in,
		Notes:   []string{"The cluster is served nothing before it polls: the next page has the manifests that connect it."},
		Command: "frs cluster create " + summarize.ShellWord(in.ID) + " --dns " + summarize.ShellWord(in.DNS) + " --environment " + summarize.ShellWord(in.Environment),
	}
	var err error
	if in.Environments, err = req.environments(); err != nil {
		return form, err
	}
	document := map[string]any{"id": in.ID, "cluster_dns": in.DNS, "environment": in.Environment}
	if in.Labels != "" {
		labels := map[string]string{}
		for pair := range strings.SplitSeq(in.Labels, ",") {
			key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
			if _, twice := labels[key]; key == "" || !found || twice {
				in.Problem = fmt.Sprintf("%q is not KEY=VALUE: write labels such as tier=gold,region=eu, each key once", strings.TrimSpace(pair))
				return form, nil
			}
			labels[key] = value
			form.Command += " --label " + summarize.ShellWord(key+"="+value)
		}
		document["labels"] = labels
	}
	if in.ID == "" || in.DNS == "" || in.Environment == "" {
		return form, nil
	}
	body, _ := json.Marshal(document) //nolint:errchkjson // strings
	form.Operation = api.Operation{Op: client.OpCreate, Kind: client.KindCluster, ID: in.ID, Document: body}
	return form, nil
}

type connectView struct {
	frame
	Cluster        api.ClusterStatus
	URL, Manifests string // URL is that of the API
}

// showConnect shows what connects a cluster, until it polls.
func showConnect(req *pageRequest) error {
	id := req.r.PathValue("id")
	status, err := req.fleet.GetClusterStatusWithResponse(req.r.Context(), id, nil)
	if err != nil {
		return err
	}
	doc, err := req.fleet.GetClusterWithResponse(req.r.Context(), id, nil)
	if err != nil { // a decommissioned cluster cannot be connected
		return err
	}
	types, err := req.fleet.ListResourceTypesWithResponse(req.r.Context(), nil)
	if err != nil {
		return err
	}
	view := connectView{Cluster: *status.JSON200, URL: req.apiURL()}
	if view.Manifests, err = connectingManifests(*doc.JSON200, *types.JSON200, view.URL); err != nil {
		return err
	}
	return req.show("connect", "Connect "+id, "clusters", &view)
}

// providerURL is the line of a provider with the URL that it polls.
var providerURL = regexp.MustCompile(`(?m)^  url: "?\$\{INTERNAL_API_URL\}.*$`)

// connectingManifests returns what a cluster applies to poll the API, without a token: the same objects as those of frs bootstrap.
func connectingManifests(cluster api.Cluster, types []api.ResourceType, url string) (string, error) {
	identity := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "cluster-identity", "namespace": resourceset.Namespace},
		"data": map[string]any{"CLUSTER_NAME": cluster.ClusterName, "CLUSTER_DNS": cluster.ClusterDNS, "ENVIRONMENT": cluster.Environment, "INTERNAL_API_URL": url},
	}
	text := "---\n" + yamlText(identity) + charts.Manifests
	for _, of := range types {
		if of.Template == "" {
			continue
		}
		objects, err := resourceset.ForType(charts.Manifests, "namespaces", of.ID, charts.Receipt+of.Template)
		if err != nil {
			return "", err
		}
		for _, object := range objects {
			text += "---\n" + yamlText(object)
		}
	}
	if strings.HasPrefix(url, "http://") {
		text = providerURL.ReplaceAllString(text, "$0\n  insecure: true")
	}
	return strings.NewReplacer("${INTERNAL_API_URL}", url, "${CLUSTER_DNS}", cluster.ClusterDNS).Replace(text), nil
}
