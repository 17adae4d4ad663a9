package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
)

// hintTimeout limits the request that explains an error after a command has failed.
const hintTimeout = 5 * time.Second

// reportError prints an error with its hint, or with the most similar name if it is about a name that does not exist.
func (s *session) reportError(err error) {
	if _, hinted := errors.AsType[conn.HintedError](err); !hinted {
		if hint := s.similarName(err); hint != "" {
			err = conn.WithHint(err, hint)
		}
	}
	s.ReportError(err)
}

// missingDocument matches the missing document in a server's message: there is no cluster "dev-1".
var missingDocument = regexp.MustCompile(`there is no ([a-z][a-z ]*) "([^"]+)"`)

// similarName returns a hint with the most similar id of the same kind; empty without one. It sends a request, and is called only
// after a command has failed.
func (s *session) similarName(err error) string {
	problem, ok := errors.AsType[*apiclient.Error](err)
	if !ok || s.Connection.Conn == nil || !slices.Contains([]string{apiclient.CodeNotFound, apiclient.CodeValidation, apiclient.CodeUnresolvedReference}, problem.Problem.Error) {
		return ""
	}
	found := missingDocument.FindStringSubmatch(problem.Problem.Detail)
	if found == nil {
		return ""
	}
	all := kinds.All()
	at := slices.IndexFunc(all, func(n kinds.Kind) bool { return n.Title == found[1] })
	if at < 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), hintTimeout)
	defer cancel()
	a, err := conn.Receive(all[at].Calls.List(ctx, s.Connection.Conn))
	if err != nil {
		return ""
	}
	var docs []json.RawMessage
	if a.Decode(&docs) != nil {
		return ""
	}
	var ids []string
	for _, doc := range docs {
		if id, err := kinds.DocumentID(doc); err == nil {
			ids = append(ids, id)
		}
	}
	similar := args.Closest(found[2], ids)
	if similar == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %s/%s?", all[at].Name, render.Printable(similar))
}
