package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

// updateFlag allows a command that creates a document to change one that exists.
func updateFlag() cli.Flag {
	return &cli.BoolFlag{Name: "update", Usage: "when it exists with other values, change the given ones; otherwise that is an error"}
}

// create creates a document. With --update it changes the given fields of one that exists, which is a conflict otherwise.
func (v kindCommands) create(c *cli.Context, id string, doc map[string]any, more ...change.Operation) error {
	hint := fmt.Sprintf("%s set changes it, and so does --update; --plan shows the effect.", v.Command())
	return v.PerformOn(c, v.Kind, v.creation(c, id, doc, hint, more...))
}

// creation is the change of create, with further operations. hint says what to do about a document that exists with other values.
func (v kindCommands) creation(c *cli.Context, id string, doc map[string]any, hint string, more ...change.Operation) (ch change.Change) {
	ops := v.ChangeOperations("put", id, doc)
	if !c.Bool("update") {
		ops = []change.Operation{v.CreateOperation(id, doc)}
		ch.Refused = func(client conn.Client, err error) error { return v.explainConflict(c, client, id, doc, err, hint) }
	}
	ch.Operations = change.FixedOperations(append(ops, more...)...)
	return ch
}

// explainConflict adds the fields in which an existing document differs from the command line to a conflict about them, and what to do.
func (v kindCommands) explainConflict(c *cli.Context, client conn.Client, id string, doc map[string]any, refusal error, hint string) error {
	if apiclient.ErrorCode(refusal) != "conflict" {
		return refusal
	}
	found, err := conn.Receive(v.Calls.Get(c.Context, client, id))
	if err != nil {
		return refusal // it is about something else
	}
	return cmp.Or(checkSameFields(v.Kind, id, doc, found, hint), refusal)
}

// checkSameFields returns an error with both values of each field that differs between a document and the command line; nil: none
// differs.
func checkSameFields(n kinds.Kind, id string, doc map[string]any, found conn.Answer, hint string) error {
	body, err := render.Encode(doc)
	if err != nil {
		return err
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		return err
	}
	fields, err := render.Changes(given, found.Body)
	if err != nil || len(fields) == 0 {
		return err
	}
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "the %s %q exists with other values; nothing was changed", n.Title, id)
	for _, f := range fields {
		_, _ = fmt.Fprintf(&text, "\n  %s: %s -> %s", f.Path, orNone(f.Before), orNone(f.After))
	}
	return conn.WithHint(errors.New(text.String()), hint)
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "none"
	}
	return string(value)
}
