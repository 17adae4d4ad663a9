package cli

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/planview"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/urfave/cli/v2"
)

// After a change, a terminal shows one line; programs receive the server's response.

// printsOneLine reports whether the output is one line: on a terminal, without a format. The result of a dry run is shown in full.
func (s *session) printsOneLine(c *cli.Context) bool {
	return s.env.StdoutTerminal && !c.IsSet("output") && s.env.Getenv("FRS_OUTPUT") == "" && !c.Bool("dry-run")
}

// prepareResultLine reads, before a change, what the line about it needs: the operations and, for a change whose response is a
// document, the newest revision.
func (s *session) prepareResultLine(c *cli.Context, conn client, ch change) error {
	if _, err := ch.operations(conn); err != nil || ch.request == nil {
		return err
	}
	if err := s.newest(c, conn); err != nil && s.verbose {
		s.note("the newest revision could not be read: %v", err)
	}
	return nil
}

// resultLine returns the line about operations that were carried out; empty: an operation has no text. before is the newest known
// revision when they were sent.
func resultLine(ops []operation, a answer, before int64) string {
	revision, _ := strconv.ParseInt(a.revision, 10, 64)
	return planview.ResultLine(ops, a.body, revision, before, nameOfKind)
}

// printLine prints the line about a change.
func (s *session) printLine(line string) error {
	_, err := fmt.Fprintln(s.env.Stdout, render.Printable(line))
	return err
}

// recordedIn returns a planner that also stores its operations.
func (p planner) recordedIn(in *[]operation) planner {
	return func(conn client) ([]operation, error) {
		ops, err := p(conn)
		*in = slices.Clone(ops)
		return ops, err
	}
}
