package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/editor"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

func (v kindCommands) editCommand() *cli.Command {
	return &cli.Command{
		Name: "edit", Usage: "Edit a " + v.title + " in your editor; fails if another client changes it at the same time", ArgsUsage: "NAME",
		Description: "The editor is VISUAL or EDITOR, or vi. On a terminal the plan is shown and confirmed. After an error, the file is kept.",
		Flags:       slices.Concat([]cli.Flag{dryRunFlag(), yesFlag()}, plannedFlags()),
		Action: v.connected(func(c *cli.Context, conn client, operands []string) error {
			found, err := receive(v.api.get(c.Context, conn, operands[0]))
			if err != nil {
				return err
			}
			text, err := v.fileKind().Editable(operands[0], found.body)
			if err != nil {
				return err
			}
			edited, file, err := v.editor().Edit(c.Context, text)
			if err == nil {
				err = v.changeEdited(c, operands[0], cmp.Or(found.etag, found.revision), text, edited)
			}
			return edits(file, err)
		}),
	}
}

func (s *session) editor() editor.Editor {
	return editor.Editor{
		Command: cmp.Or(s.env.Getenv("VISUAL"), s.env.Getenv("EDITOR")),
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
		return withHint(err, "another client changed it since: edit it again. Your version is kept in "+file)
	}
	return withHint(err, fmt.Sprintf("nothing was changed. Your version is kept in %s; to use it: diff -f %s, apply -f %s", file, file, file))
}

// changeEdited sends the difference between a document's text before and after the edit. version is the document's ETag, or if a
// proxy removed it, the fleet's revision that was read.
func (v kindCommands) changeEdited(c *cli.Context, id, version string, before, after []byte) error {
	patch, err := fileKinds().EditPatch(v.fileKind(), before, after)
	if err != nil {
		return err
	}
	if len(patch) == 0 {
		v.note("Nothing was edited.")
		return nil
	}
	return v.performOn(c, v.documentKind, change{
		operations:  fixedOperations(v.operation("patch", id, map[string]any{"patch": patch, "if_match": version})),
		description: fmt.Sprintf("change %s/%s like this", v.name, id), unconfirmedInScripts: true,
	})
}
