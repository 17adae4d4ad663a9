package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/editor"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/input"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

func (v kindCommands) editCommand() *cli.Command {
	return &cli.Command{
		Name: "edit", Usage: "Edit a " + v.title + " in your editor; fails if another client changes it at the same time", ArgsUsage: "NAME",
		Description: "The editor is VISUAL or EDITOR, or vi. On a terminal the plan is shown and confirmed. After an error, the file is kept.",
		Flags:       slices.Concat([]cli.Flag{dryRunFlag(), yesFlag()}, plannedFlags()),
		Action: func(c *cli.Context) error {
			operands, err := arguments(c, "NAME")
			if err != nil {
				return err
			}
			conn, err := v.connect(c)
			if err != nil {
				return err
			}
			found, err := receive(v.api.get(c.Context, conn, operands[0]))
			if err != nil {
				return err
			}
			text, err := v.editable(operands[0], found.body)
			if err != nil {
				return err
			}
			edited, file, err := v.editor().Edit(c.Context, text)
			if err == nil {
				err = v.changeEdited(c, operands[0], found.etag, text, edited)
			}
			return edits(file, err)
		},
	}
}

func (s *session) editor() editor.Editor {
	return editor.Editor{
		Command: firstNonEmpty(s.env.Getenv("VISUAL"), s.env.Getenv("EDITOR")),
		Stdin:   s.env.Stdin, Stdout: s.stdout.terminal(), Stderr: s.env.Stderr,
	}
}

// edits removes the temporary file, or after an error adds its path to the error.
func edits(file string, err error) error {
	switch {
	case file == "":
		return err
	case err == nil || errors.Is(err, errDiffers):
		return errors.Join(err, os.Remove(file))
	case apiclient.ErrorCode(err) == "stale":
		return hintedError{err, "another client changed it since: edit it again. Your version is kept in " + file}
	}
	return hintedError{err, fmt.Sprintf("nothing was changed. Your version is kept in %s; to use it: diff -f %s, apply -f %s", file, file, file)}
}

// editable returns a document as YAML to edit: without the fields that the server sets, and with its kind, so that apply can read
// it, too.
func (n documentKind) editable(id string, body json.RawMessage) ([]byte, error) {
	kind := n.kind
	if n.resourceType != "" {
		kind = resourceKind
	}
	text, err := render.Editable(body, readOnly)
	if err != nil {
		return nil, fmt.Errorf("unexpected response of the server: %w", err)
	}
	head := fmt.Sprintf("# %s/%s. Save the file and close the editor. Deleted fields are removed. An unchanged file changes nothing.\nkind: %s\n", n.name, id, kind)
	return append([]byte(head), text...), nil
}

// changeEdited sends the difference between a document's text before and after the edit.
func (v kindCommands) changeEdited(c *cli.Context, id, etag string, before, after []byte) error {
	if input.Truncated(after) {
		return args.Errorf("the file seems truncated: its last line has no newline")
	}
	was, err := fieldsOf(before)
	if err != nil {
		return err
	}
	is, err := fieldsOf(after)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(was["id"], is["id"]) || !reflect.DeepEqual(was["kind"], is["kind"]) {
		return args.Errorf("the id and the kind of a document stay; create makes another one")
	}
	patch := patchBetween(was, is, v.assignedFields())
	if len(patch) == 0 {
		v.note("Nothing was edited.")
		return nil
	}
	body, err := render.Encode(patch)
	if err != nil {
		return err
	}
	return v.performOn(c, change{
		operations:  fixedOperations(v.operation("patch", id, map[string]any{"patch": body})),
		description: fmt.Sprintf("change %s/%s like this", v.name, id), unconfirmedInScripts: true,
		request: func(conn client, hash string) (answer, error) {
			return receive(v.api.patch(c.Context, conn, id, body, append(writeEdits(c), header("If-Match", etag), planned(hash))...))
		},
	})
}

// fieldsOf reads text with one object; numbers stay as written.
func fieldsOf(text []byte) (map[string]any, error) {
	object, err := input.Object(text, "the file")
	if err != nil {
		return nil, err
	}
	value, err := input.Decode(object)
	fields, _ := value.(map[string]any)
	return fields, err
}

// assignedFields returns the fields with lists of assignments.
func (n documentKind) assignedFields() []string {
	if n.kind == clusters.kind || n.kind == layers.kind {
		return listNames()
	}
	return nil
}

// patchBetween returns the merge patch (RFC 7396) from one object to another. In the fields named by assigned, an entry keeps the
// settings that it does not mention, so removed settings become null.
func patchBetween(was, is map[string]any, assigned []string) map[string]any {
	patch := map[string]any{}
	for name := range was {
		if _, there := is[name]; !there {
			patch[name] = nil
		}
	}
	for name, value := range is {
		before, there := was[name]
		if there && reflect.DeepEqual(before, value) {
			continue
		}
		patch[name] = value
		old, both := before.(map[string]any)
		switch value := value.(type) {
		case map[string]any:
			var below []string
			if name == resourcesList && slices.Contains(assigned, name) { // a list per type
				below = render.SortedKeys(value)
			}
			if both {
				patch[name] = patchBetween(old, value, below)
			}
		case []any:
			if entries, _ := before.([]any); slices.Contains(assigned, name) {
				patch[name] = entriesBetween(entries, value)
			}
		}
	}
	return patch
}

// entriesBetween returns the list that changes entries into those of another list. Entries are matched by id.
func entriesBetween(was, is []any) []any {
	before := map[any]map[string]any{}
	for _, entry := range was {
		if fields, ok := entry.(map[string]any); ok {
			before[fmt.Sprint(fields["id"])] = fields
		}
	}
	out := slices.Clone(is)
	for i, entry := range out {
		fields, ok := entry.(map[string]any)
		if !ok || fields["id"] == nil {
			continue
		}
		whole := map[string]any{}
		for name := range before[fmt.Sprint(fields["id"])] {
			whole[name] = nil
		}
		maps.Copy(whole, fields)
		out[i] = whole
	}
	return out
}
