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
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
)

// hintTimeout limits the request that explains an error after a command has failed.
const hintTimeout = 5 * time.Second

// missingDocument matches the missing document in a server's message: there is no cluster "dev-1".
var missingDocument = regexp.MustCompile(`there is no ([a-z][a-z ]*) "([^"]+)"`)

// similarName returns a hint with the most similar id of the same kind; empty without one. It sends a request, and is called only
// after a command has failed.
func (s *session) similarName(err error) string {
	problem, ok := errors.AsType[*apiclient.Error](err)
	if !ok || s.connection.conn == nil || !slices.Contains([]string{apiclient.CodeNotFound, apiclient.CodeValidation, apiclient.CodeUnresolvedReference}, problem.Problem.Error) {
		return ""
	}
	found := missingDocument.FindStringSubmatch(problem.Problem.Detail)
	if found == nil {
		return ""
	}
	kinds := documentKinds()
	at := slices.IndexFunc(kinds, func(n documentKind) bool { return n.title == found[1] })
	if at < 0 {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), hintTimeout)
	defer cancel()
	a, err := receive(kinds[at].api.list(ctx, s.connection.conn))
	if err != nil {
		return ""
	}
	var docs []json.RawMessage
	if a.decode(&docs) != nil {
		return ""
	}
	var ids []string
	for _, doc := range docs {
		if id, err := documentID(doc); err == nil {
			ids = append(ids, id)
		}
	}
	similar := args.Closest(found[2], ids)
	if similar == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %s/%s?", kinds[at].name, render.Printable(similar))
}
