package cli

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/gen/rawclient"
	"github.com/urfave/cli/v2"
)

// watchedRevisions is the number of past revisions shown at the start.
const watchedRevisions = 20

// watchRevisions shows the latest revisions, oldest first, and then each new one once, when it is committed.
func (s revisionCommands) watchRevisions(c *cli.Context, v kindCommands, filters []kinds.Filter) error {
	if c.String("sort-by") != "" || c.IsSet("until") {
		return args.Errorf("--watch shows revisions in their order, including new ones: omit --sort-by and --until")
	}
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = watchedRevisions
	}
	out, err := v.watch(c)
	if err != nil {
		return err
	}
	client, err := s.Connect(c)
	if err != nil {
		return err
	}
	from := apiclient.RevisionWatch{
		Kind: c.String("kind"), ID: c.String("id"), Actor: c.String("actor"),
		Retrying: func(err error, _ time.Duration) { out.Failed(err) },
	}
	var shown int64 // the newest revision of the list
	page := func(e ...conn.Edit) (*http.Response, error) {
		return conn.RevisionCalls.List(c.Context, client, append([]conn.Edit{kinds.FilterEdit(c, filters)}, e...)...)
	}
	// The position comes before the list, so that no revision is lost between them.
	newest, _, err := conn.ReadPages(1, 1, func(e ...conn.Edit) (*http.Response, error) {
		return conn.RevisionCalls.List(c.Context, client, append(e, conn.Query(url.Values{"limit": {"1"}}))...)
	})
	if err != nil {
		return err
	}
	if from.After, _, err = positionOf(newest); err != nil {
		return err
	}
	docs, _, err := conn.ReadPages(limit, v.Page, page)
	if err != nil {
		return err
	}
	if _, shown, err = positionOf(docs); err != nil {
		return err
	}
	slices.Reverse(docs)
	first, err := watched(docs)
	if err == nil {
		err = out.Changed(first)
	}
	if err != nil {
		return err
	}
	for revision, err := range apiclient.Revisions(c.Context, &rawclient.ClientWithResponses{ClientInterface: client}, from) {
		if err != nil {
			return err
		}
		if revision.Revision <= shown {
			continue
		}
		doc, err := json.Marshal(revision)
		if err != nil {
			return err
		}
		next, err := watched([]json.RawMessage{doc})
		if err == nil {
			err = out.Changed(next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// positionOf returns the position of the newest of some revisions, and its number; "0" if there are none.
func positionOf(docs []json.RawMessage) (position string, revision int64, err error) {
	if len(docs) == 0 {
		return "0", 0, nil
	}
	var newest api.RevisionSummary
	err = json.Unmarshal(docs[0], &newest)
	return apiclient.Position(newest), newest.Revision, err
}
