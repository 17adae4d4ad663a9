package cli

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/urfave/cli/v2"
)

// applyRun is one run of apply, plan or diff.
type applyRun struct {
	s   *session
	c   *cli.Context
	set manifests.Set
}

func (s *session) newApplyRun(c *cli.Context) (*applyRun, error) {
	set := manifests.Set{Kinds: kinds.ForFiles()}
	mode := c.String("mode")
	for _, word := range c.StringSlice("prune") {
		if documents.IsResource(word) {
			set.PruneResources = true
			continue
		}
		k, ok := set.Kinds.Find(word)
		if !ok {
			return nil, args.Errorf("--prune: there is no kind %q; there are %s", word, args.ListOf(kinds.Words()))
		}
		set.Prune = append(set.Prune, k)
	}
	prunesClusters := slices.ContainsFunc(set.Prune, func(k documents.Kind) bool { return k.Kind == kinds.Clusters.API })
	switch {
	case prunesClusters && mode != "uninstall" && mode != "orphan":
		return nil, args.Errorf("--prune %s needs --mode uninstall (Flux removes everything on them) or --mode orphan (Flux keeps its objects)", kinds.Clusters.Name)
	case !prunesClusters && c.IsSet("mode"):
		return nil, args.Errorf("--mode is for --prune %s", kinds.Clusters.Name)
	}
	if _, err := args.Operands(c); err != nil {
		return nil, err
	}
	names := c.StringSlice("file")
	if len(names) == 0 {
		return nil, args.Errorf("%s needs documents: use -f", c.Command.HelpName)
	}
	var err error
	if set.Documents, err = manifests.ReadFiles(set.Kinds, names, s.Input); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(set.Documents, func(d documents.Document) bool { return d.Limited }); i >= 0 && len(c.StringSlice("prune")) > 0 {
		return nil, args.Errorf("--prune would delete documents that are missing in %s: it is an export of only a part of the fleet; export again with a token that may read everything", set.Documents[i].Source)
	}
	for _, k := range set.Prune {
		if !slices.ContainsFunc(set.Documents, func(d documents.Document) bool { return d.Kind.Kind == k.Kind }) {
			return nil, args.Errorf("--prune %s would delete every %s: the files contain none", k.Name, k.Title)
		}
	}
	if set.PruneResources && !slices.ContainsFunc(set.Documents, func(d documents.Document) bool { return d.Kind.Type != "" }) {
		return nil, args.Errorf("--prune %s would delete every resource: the files contain none", kinds.ResourceKind)
	}
	return &applyRun{s, c, set}, nil
}

// operations returns the operations that apply the documents. A process that lags behind must not make a document look already
// applied, so nothing older is read than the newest revision in the log, which every process reads from the store.
func (a *applyRun) operations(client conn.Client) ([]change.Operation, error) {
	if err := a.s.newest(a.c, client); err != nil {
		return nil, err
	}
	ops, err := a.set.Operations(storedFleet{a, client})
	return a.requests(ops), err
}

// requests returns operations as the API takes them.
func (a *applyRun) requests(ops []manifests.Operation) []change.Operation {
	out := make([]change.Operation, len(ops))
	for i, op := range ops {
		more := map[string]any{}
		if op.Document != nil {
			more["document"] = op.Document
		} else if op.Kind.Kind == kinds.Clusters.API {
			more["mode"] = a.c.String("mode")
		}
		out[i] = kinds.Kind{API: op.Kind.Kind, ResourceType: op.Kind.Type}.Operation(op.Op, op.ID, more)
	}
	return out
}

// storedFleet reads the fleet for a [manifests.Set].
type storedFleet struct {
	*applyRun
	conn conn.Client
}

// Get implements [manifests.Fleet].
func (f storedFleet) Get(k documents.Kind, id string) (json.RawMessage, error) {
	doc, err := conn.Receive(kinds.Of(k).Calls.Get(f.c.Context, f.conn, id))
	if apiclient.ErrorCode(err) == "not_found" {
		return nil, nil
	}
	return doc.Body, err
}

// List implements [manifests.Fleet].
func (f storedFleet) List(k documents.Kind) ([]json.RawMessage, error) {
	list, err := f.s.listAll(f.c, f.conn, kinds.Of(k))
	if k.Type != "" && apiclient.ErrorCode(err) == "not_found" {
		return nil, nil
	}
	return list, err
}

// ResourceTypes implements [manifests.Fleet].
func (f storedFleet) ResourceTypes() ([]string, error) { return f.s.typeIDs(f.c.Context, f.conn) }

// Differing implements [manifests.Fleet] by a plan.
func (f storedFleet) Differing(ops []manifests.Operation) ([]manifests.Name, error) {
	var names []manifests.Name
	sent := f.requests(ops)
	_, plan, err := f.s.RequestPlan(f.c, f.conn, map[string]any{"operations": sent})
	if slices.Contains([]string{"conflict", "not_found", "validation_error"}, apiclient.ErrorCode(err)) {
		for _, op := range ops { // the fleet has changed: the whole change decides about them
			names = append(names, manifests.Name{Kind: op.Kind.Kind, ID: op.ID})
		}
		return names, nil
	}
	for _, changed := range plan.Changes {
		names = append(names, manifests.Name{Kind: changed.Kind, ID: changed.ID})
	}
	return names, change.DescribeLocations(sent, err, f.describe)
}

// listAll reads every document of a kind.
func (s *session) listAll(c *cli.Context, client conn.Client, n kinds.Kind) ([]json.RawMessage, error) {
	return s.ReadList(0, n.Page, func(e ...conn.Edit) (*http.Response, error) { return n.Calls.List(c.Context, client, e...) })
}

// newest records the newest revision in the server's log.
func (s *session) newest(c *cli.Context, client conn.Client) error {
	one := 1
	found, err := conn.ReceiveAs[[]api.RevisionSummary](client.ListRevisions(c.Context, &api.ListRevisionsParams{Limit: &one}))
	for _, revision := range found {
		s.Connection.Seen.Note(revision.Revision)
	}
	return err
}

// describe names the document of an operation with its file.
func (a *applyRun) describe(op change.Operation) string {
	for _, d := range a.set.Documents {
		fields, _ := op["document"].(map[string]json.RawMessage)
		if op.Kind() == d.Kind.Kind && fields != nil && string(fields["id"]) == string(d.Fields["id"]) {
			return d.Name() + " (" + d.Source + ")"
		}
	}
	return change.DescribeOperation(op)
}
