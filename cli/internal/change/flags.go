package change

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/gen/api"
	"github.com/urfave/cli/v2"
)

// PlannedFlags are the flags of every change that can be planned.
func PlannedFlags() []cli.Flag {
	return ofChanges(slices.Concat([]cli.Flag{
		&cli.BoolFlag{Name: "plan", Usage: "show the effect on each cluster, without a change; exit code 0: none, 1: changes, 3: error"},
		FullFlag(),
	}, RenderedFlags(), []cli.Flag{
		&cli.IntFlag{Name: "max-removals", Usage: "only if Flux uninstalls at most `N` things because of it; this confirms a change for which the server requires confirmation"},
		&cli.StringSliceFlag{Name: "confirm", Usage: "also remove things from clusters of this protected `ENVIRONMENT`; repeat for more"},
		&cli.StringSliceFlag{Name: "override-freeze", Usage: "although this `FREEZE` forbids the change; it requires --reason; repeat for more"},
		&cli.StringSliceFlag{Name: "override-source", Usage: "although this `SOURCE` manages a document that changes; it requires --reason; repeat for more"},
		&cli.StringSliceFlag{Name: "override-policy", Usage: "although this `POLICY` refuses the change; it requires --reason; repeat for more"},
		&cli.StringFlag{Name: "plan-hash", Usage: "only if the effect is still that of the plan with this `HASH`; @FILE: of the plan (-o json) in that file"},
	}, rolloutFlags()))
}

// ofChanges puts flags into the category that help explains once.
func ofChanges(flags []cli.Flag) []cli.Flag {
	for _, flag := range flags {
		switch f := flag.(type) {
		case *cli.BoolFlag:
			f.Category = args.ChangeCategory
		case *cli.StringFlag:
			f.Category = args.ChangeCategory
		case *cli.StringSliceFlag:
			f.Category = args.ChangeCategory
		case *cli.IntFlag:
			f.Category = args.ChangeCategory
		}
	}
	return flags
}

// ChangeFlags are the flags that all changes share, for the help of the program.
func ChangeFlags() []cli.Flag {
	return ofChanges(slices.Concat(WriteFlags(), []cli.Flag{YesFlag()}, PlannedFlags()))
}

// PlanHash returns the value of --plan-hash, read from the file for @FILE.
func (s *Engine) PlanHash(c *cli.Context) (string, error) {
	hash := c.String("plan-hash")
	name, inFile := strings.CutPrefix(hash, "@")
	switch {
	case hash == "" && c.IsSet("plan-hash"), inFile && name == "":
		return "", args.Errorf("--plan-hash must not be empty")
	case !inFile:
		return hash, nil
	}
	data, err := s.Environment().Input(name)
	if err != nil {
		return "", err
	}
	var plan api.Plan
	if err := json.Unmarshal(data, &plan); err != nil || plan.PlanHash == "" {
		return "", args.Errorf("%s does not hold a plan in JSON", name)
	}
	return plan.PlanHash, nil
}

// FileFlag is the flag of a file with the fields of a document.
func FileFlag(of string) cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: of + ", from a YAML or JSON `FILE` (-: standard input)"}
}

// YesFlag is the flag that confirms a change.
func YesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Category: args.ChangeCategory, Usage: "do not prompt"}
}

// FullFlag is the flag that shows a plan or a revision in full.
func FullFlag() cli.Flag {
	return &cli.BoolFlag{Name: "full", Usage: "show all, however long it is"}
}

// DryRunFlag is the flag that only checks a change.
func DryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Category: args.ChangeCategory, Usage: "have the server check the change and show the result, without a change"}
}

// WriteFlags are the flags of every change of a document.
func WriteFlags() []cli.Flag {
	return []cli.Flag{
		DryRunFlag(),
		&cli.StringFlag{Name: "if-match", Category: args.ChangeCategory, Usage: "only if the document still has this `ETAG` (-v shows it)"},
	}
}

// WriteEdits returns the edits that a command's flags make to the change of one document.
func WriteEdits(c *cli.Context) []conn.Edit {
	return append(changeEdits(c), conn.Header("If-Match", c.String("if-match")))
}

// changeEdits returns the edits that a command's flags make to its changes.
func changeEdits(c *cli.Context) []conn.Edit {
	edits := []conn.Edit{conn.Header("X-Fleet-Removes-From", cmp.Or(strings.Join(c.StringSlice("confirm"), ","), "none"))}
	if names := c.StringSlice("override-freeze"); len(names) > 0 {
		edits = append(edits, conn.Header("X-Fleet-Override-Freeze", strings.Join(names, ",")))
	}
	if names := c.StringSlice("override-source"); len(names) > 0 {
		edits = append(edits, conn.Header("X-Fleet-Override-Source", strings.Join(names, ",")))
	}
	if names := c.StringSlice("override-policy"); len(names) > 0 {
		edits = append(edits, conn.Header("X-Fleet-Override-Policy", strings.Join(names, ",")))
	}
	if c.Bool("dry-run") {
		edits = append(edits, conn.Query(url.Values{"dry_run": {"true"}}))
	}
	if reason := c.String("reason"); reason != "" {
		edits = append(edits, conn.Header("X-Change-Reason", reason))
	}
	return edits
}

// Planned ties a change to the plan with this hash; empty: to none.
func Planned(hash string) conn.Edit {
	if hash == "" {
		return func(context.Context, *http.Request) error { return nil }
	}
	return conn.Query(url.Values{"plan_hash": {hash}})
}
