package cli

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/internal/documents"
	"github.com/flux-resourceset/flux-resourceset/internal/served"
	"github.com/urfave/cli/v2"
)

// version is a document of the fleet, now or at a revision.
type version struct {
	kind     kinds.Kind
	id       string
	revision int64 // 0: now
}

// versionFrom reads KIND/NAME[@REVISION].
func versionFrom(text string) (version, error) {
	var v version
	name, at, past := strings.Cut(text, "@")
	if past {
		var err error
		if v.revision, err = strconv.ParseInt(at, 10, 64); err != nil || v.revision < 1 {
			return v, args.Errorf("%q: %q is not the number of a revision", text, at)
		}
	}
	kind, id, ok := documents.SplitName(name)
	if !ok {
		return v, args.Errorf("%q is not KIND/NAME or KIND/NAME@REVISION, such as cluster/prod-01@41", text)
	}
	if v.kind, ok = kinds.Find(kind); !ok {
		return v, args.Errorf("there is no kind %s; there are %s", strconv.Quote(kind), args.ListOf(kinds.Words()))
	}
	v.id = id
	return v, args.CheckID("NAME", id)
}

func (v version) String() string {
	if v.revision == 0 {
		return v.kind.Name + "/" + v.id
	}
	return v.kind.Name + "/" + v.id + "@" + strconv.FormatInt(v.revision, 10)
}

// diffDocuments compares two documents of the fleet, or two versions of one.
func (s *session) diffDocuments(c *cli.Context) error {
	if c.IsSet("file") || c.NArg() > 2 {
		return args.Errorf("%s takes -f, or one or two of KIND/NAME[@REVISION]", c.Command.HelpName)
	}
	var sides [2]version
	for i := range sides {
		var err error
		if sides[i], err = versionFrom(c.Args().Get(min(i, c.NArg()-1))); err != nil {
			return err
		}
	}
	if c.NArg() == 1 {
		if sides[1].revision = 0; sides[0].revision == 0 {
			return args.Errorf("%s is compared with itself: name another document, or a revision as in %[1]s@41", sides[0])
		}
	}
	if c.Bool("effective") && sides[0].kind.API != kinds.Clusters.API {
		return args.Errorf("--effective is for clusters, not for %s", sides[0])
	}
	if sides[0].kind.API != sides[1].kind.API {
		return args.Errorf("%s and %s are not of one kind", sides[0], sides[1])
	}
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	var docs [2]json.RawMessage
	for i, side := range sides {
		if docs[i], err = s.documentAt(c, client, side); err != nil {
			return err
		}
	}
	fields, err := manifests.Compare(docs[0], docs[1], "id")
	if err != nil {
		return err
	}
	if len(fields) == 0 {
		return s.printDiffs(c, []manifests.Diff{})
	}
	return s.printDiffs(c, []manifests.Diff{{
		Kind: sides[0].kind.API, ID: sides[1].id, Action: "update", Fields: fields, Before: sides[0].String(), Source: sides[1].String(),
	}})
}

// documentAt returns a document at its revision, or with --effective what the cluster is served there.
func (s *session) documentAt(c *cli.Context, client conn.Client, v version) (json.RawMessage, error) {
	ask := url.Values{}
	if v.revision > 0 {
		ask = atRevision(v.revision)
	}
	a, err := conn.Receive(v.kind.Calls.Get(c.Context, client, v.id, conn.Query(ask)))
	if err != nil || !c.Bool("effective") {
		return a.Body, err
	}
	explained, err := conn.ReceiveAs[api.Explanation](client.ExplainCluster(c.Context, v.id, nil, conn.Query(ask)))
	if err != nil {
		return nil, err
	}
	settings, err := served.Of(&explained, a.Body)
	if err != nil {
		return nil, err
	}
	all, err := settings.WithoutRepetitions().Document()
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// printDiffs prints the differences; with any, the exit code is 1.
func (s *session) printDiffs(c *cli.Context, diffs []manifests.Diff) error {
	if err := s.printDiff(c, diffs); err != nil {
		return err
	}
	if len(diffs) > 0 {
		return change.ErrDiffers
	}
	return nil
}

func (s *session) printDiff(c *cli.Context, diffs []manifests.Diff) error {
	names := make([]string, len(diffs))
	for i, d := range diffs {
		names[i] = kinds.NameOf(d.Kind) + "/" + d.ID
	}
	out := render.Output{
		Document: diffs,
		Text: func(bool) string {
			return manifests.FormatDiffs(diffs, kinds.NameOf, func(color, text string) string { return s.Paint(s.Env.StdoutTerminal, color, text) })
		},
		Names: func() ([]string, error) { return names, nil },
	}
	if !c.IsSet("output") {
		return s.PrintAs(c, "table", out)
	}
	return s.Print(c, out)
}

func atRevision(n int64) url.Values { return url.Values{"revision": {strconv.FormatInt(n, 10)}} }
