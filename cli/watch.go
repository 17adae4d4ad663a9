package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/watch"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

// watchFlags are those of get and list.
func watchFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "then show changes, until an interrupt; deletions are noted on standard error"},
		&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "with --watch: interval between two requests"},
	}
}

// watchList follows a list. It reads the list again only when the fleet's revision changes.
func (v kindCommands) watchList(c *cli.Context, limit int, page func(e ...conn.Edit) (*http.Response, error)) error {
	if c.String("sort-by") != "" {
		return args.Errorf("--watch shows changes in their order, so it excludes --sort-by")
	}
	w, err := v.watch(c)
	if err != nil {
		return err
	}
	w.Version = func(context.Context) (string, error) {
		a, err := conn.Receive(page(conn.Query(url.Values{"limit": {"1"}})))
		return cmp.Or(a.Revision, string(a.Body)), err
	}
	w.List = func(context.Context) ([]watch.Document, error) {
		docs, _, err := conn.ReadPages(limit, v.Page, page)
		if err != nil {
			return nil, err
		}
		return watched(docs)
	}
	if limit > 0 {
		w.Deleted = func(string) {} // it may only have left the first page
	}
	return w.Run(c.Context)
}

// watchSeveral follows named documents until the last of them is deleted.
func (v kindCommands) watchSeveral(c *cli.Context, ids []string, get func(id string) (conn.Answer, error)) error {
	if c.IsSet("revision") {
		return args.Errorf("a document at a revision does not change: --watch excludes --revision")
	}
	w, err := v.watch(c)
	if err != nil {
		return err
	}
	started := false
	w.Empty = true
	w.List = func(context.Context) ([]watch.Document, error) {
		var docs []json.RawMessage
		for _, id := range ids {
			a, err := get(id)
			switch {
			case started && apiclient.ErrorCode(err) == "not_found":
				continue
			case err != nil:
				return nil, err
			}
			docs = append(docs, a.Body)
		}
		started = true
		return watched(docs)
	}
	return w.Run(c.Context)
}

// watch returns the settings that all watches share.
func (v kindCommands) watch(c *cli.Context) (watch.Watch, error) {
	if c.Duration("interval") < time.Millisecond {
		return watch.Watch{}, args.Errorf("--interval must be at least 1ms, such as 2s")
	}
	format, err := v.Format(c)
	if err != nil {
		return watch.Watch{}, err
	}
	headers, away := !c.Bool("no-headers"), false
	return watch.Watch{
		Interval: c.Duration("interval"),
		Changed: func(changed []watch.Document) error {
			docs := make([]json.RawMessage, len(changed))
			for i, d := range changed {
				docs[i] = d.Body
			}
			if away {
				away = false
				v.Note("The server responds again.")
			}
			err := v.writeWatched(c, format, headers, docs)
			headers = false
			return err
		},
		Deleted: func(id string) { v.Note("%s/%s was deleted.", v.Name, id) },
		Failed: func(err error) bool {
			problem, answered := errors.AsType[*apiclient.Error](err)
			if answered && problem.StatusCode < http.StatusInternalServerError && problem.StatusCode != http.StatusTooManyRequests {
				return false
			}
			if !away {
				v.Note("The server does not respond, retrying: %s", conn.ErrorText(err))
			}
			away = true
			return true
		},
	}, nil
}

// writeWatched writes documents as they change: rows of one table, or one value after the other.
func (v kindCommands) writeWatched(c *cli.Context, format string, headers bool, docs []json.RawMessage) error {
	if format == "json" && v.Name == revisionName {
		return v.writeLines(docs)
	}
	style, _ := v.Style(format)
	style.NoHeaders = !headers
	if format == "table" || format == "wide" {
		return v.listOutput(c, nil, docs...).Write(v.Env.Stdout, style)
	}
	for _, doc := range docs {
		if format == "yaml" {
			if _, err := v.Env.Stdout.Write([]byte("---\n")); err != nil {
				return err
			}
		}
		if err := v.Output(doc).Write(v.Env.Stdout, style); err != nil {
			return err
		}
		style.NoHeaders = true
	}
	return nil
}

func watched(docs []json.RawMessage) ([]watch.Document, error) {
	out := make([]watch.Document, len(docs))
	for i, doc := range docs {
		id, err := kinds.DocumentID(doc)
		if err != nil {
			return nil, err
		}
		out[i] = watch.Document{ID: id, Body: doc}
	}
	return out, nil
}

// revisionName is the name of revisions in commands.
const revisionName = "revision"

// writeLines writes each document on one line.
func (v kindCommands) writeLines(docs []json.RawMessage) error {
	for _, doc := range docs {
		var line bytes.Buffer
		if err := json.Compact(&line, doc); err != nil {
			return err
		}
		line.WriteByte('\n')
		if _, err := v.Env.Stdout.Write(line.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
