package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/argv"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/flux-resourceset/flux-resourceset/gen/apiclient"
	"github.com/urfave/cli/v2"
)

func (s *session) historyCommand(n noun) *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "List the revisions that changed a " + n.title + ", newest first; also of one that is deleted",
		ArgsUsage: "NAME",
		Flags:     []cli.Flag{limitFlag()},
		Action: func(c *cli.Context) error {
			args, err := arguments(c, "NAME")
			if err != nil {
				return err
			}
			limit, err := limitOf(c)
			if err != nil {
				return err
			}
			conn, err := s.ready(c)
			if err != nil {
				return err
			}
			const page = 1000
			docs, err := s.all(limit, page, func(e ...edit) (*http.Response, error) {
				return n.api.history(c.Context, conn, args[0], e...)
			})
			if err != nil {
				return err
			}
			document, err := render.Encode(docs)
			if err != nil {
				return err
			}
			return s.print(c, noun{name: "revision", view: revisionView}.shown(document, docs...))
		},
	}
}

func (s *session) rollbackCommand(n noun) *cli.Command {
	return &cli.Command{
		Name: "rollback", Usage: "Put a " + n.title + " back to what it was before its last change, as a new revision; a second time undoes the first",
		ArgsUsage: "NAME",
		Flags:     slices.Concat([]cli.Flag{dryRunFlag(), yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			args, err := arguments(c, "NAME")
			if err != nil {
				return err
			}
			operations := func(conn client) ([]operation, error) { return s.rollback(c, conn, n, args[0]) }
			return s.perform(c, change{
				operations: operations,
				request: func(conn client, hash string) (answer, error) {
					return s.unlessChanged(c, conn, operations, hash)
				},
			})
		},
	}
}

// unlessChanged sends operations that were decided by looking, and looks again if somebody changes the document before
// they are carried out: they would take back that change, too.
func (s *session) unlessChanged(c *cli.Context, conn client, operations planner, hash string) (answer, error) {
	for range maxRaces {
		ops, err := operations(conn)
		if err != nil {
			return answer{}, err
		}
		if hash != "" {
			return s.batch(c, conn, ops, hash)
		}
		_, plan, err := s.plan(c, conn, ops)
		if err != nil {
			return answer{}, err
		}
		if plan.ConfirmationRequired { // the hash would count as a confirmation
			return s.batch(c, conn, ops, "")
		}
		again, err := operations(conn)
		if err != nil {
			return answer{}, err
		}
		if !reflect.DeepEqual(ops, again) {
			continue
		}
		a, err := s.batch(c, conn, ops, plan.PlanHash)
		if apiclient.ErrorCode(err) != "stale" {
			return a, err
		}
	}
	return answer{}, errors.New("somebody else keeps changing it at the same time; try again")
}

// rollback restores the revision before the last one that changed the document. A document that was only created is
// not deleted: that is another thing to want.
func (s *session) rollback(c *cli.Context, conn client, n noun, id string) ([]operation, error) {
	a, err := receive(n.api.history(c.Context, conn, id, query(url.Values{"limit": {"1"}})))
	if err != nil {
		return nil, err
	}
	var history []api.RevisionSummary
	if err := a.decode(&history); err != nil {
		return nil, err
	}
	if len(history) == 0 {
		return nil, fmt.Errorf("there is no history of a %s %q", n.title, id)
	}
	before := history[0].Revision - 1
	if before > 0 {
		_, err = receive(n.api.get(c.Context, conn, id, query(atRevision(before))))
	}
	if before == 0 || apiclient.ErrorCode(err) == "not_found" && !existed(history[0], n.kind, id) {
		return nil, hintedError{
			fmt.Errorf("the last change of the %s %q, revision %d, created it: there is nothing to go back to", n.title, id, history[0].Revision),
			fmt.Sprintf("delete it with: %s delete %s", n.name, id),
		}
	}
	if err != nil { // it may be older than the history that the server keeps
		return nil, err
	}
	if c.String("reason") == "" {
		if err := c.Set("reason", fmt.Sprintf("rolled back revision %d of %s/%s", history[0].Revision, n.name, id)); err != nil {
			return nil, err
		}
	}
	return []operation{{"op": "restore", "revision": before, "kind": n.kind, "id": id}}, nil
}

// existed tells whether a document that a revision changed was there before.
func existed(rev api.RevisionSummary, kind, id string) bool {
	return slices.ContainsFunc(rev.Changes, func(c api.ChangeRef) bool { return c.Kind == kind && c.ID == id && c.Action != "create" })
}

func atRevision(n int64) url.Values { return url.Values{"revision": {strconv.FormatInt(n, 10)}} }

func (s *session) restoreCommand() *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "Put one document, or the whole fleet, back to what it was at a revision, as a new revision",
		ArgsUsage: "REVISION [KIND NAME]",
		Description: "What did not exist then is deleted, and Flux told to remove it: see that with --plan.\n\n" +
			argv.ExampleText("restore 41 component grafana --plan", "restore 41 --yes"),
		Flags: slices.Concat([]cli.Flag{dryRunFlag(), yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) != 1 && len(args) != 3 {
				return argv.Errorf("%s takes REVISION, or REVISION KIND NAME, not %s", c.Command.HelpName, counted(args))
			}
			revision, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || revision < 1 {
				return argv.Errorf("%q is not the number of a revision", args[0])
			}
			op := operation{"op": "restore", "revision": revision}
			what := fmt.Sprintf("put the whole fleet back to revision %d", revision)
			if len(args) == 3 {
				n, ok := nounOf(args[1])
				if !ok {
					return argv.Errorf("there is no kind %q; there are %s", args[1], argv.ListOf(kinds()))
				}
				if err := checkID("NAME", args[2]); err != nil {
					return err
				}
				op["kind"], op["id"] = n.kind, args[2]
				what = fmt.Sprintf("put the %s %q back to revision %d", n.title, args[2], revision)
			}
			if c.String("reason") == "" {
				if err := c.Set("reason", fmt.Sprintf("restored to revision %d", revision)); err != nil {
					return err
				}
			}
			return s.perform(c, change{operations: fixed(op), what: what})
		},
	}
}
