package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/change"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/conn"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/editor"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/kinds"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/manifests"
	apiclient "github.com/flux-resourceset/flux-resourceset/client"
	"github.com/urfave/cli/v2"
)

func (s *session) editCommand() *cli.Command {
	return &cli.Command{
		Name: "edit", Usage: "Edit a document in your editor; fails if another client changes it at the same time", ArgsUsage: "KIND NAME",
		Description: "The editor is VISUAL or EDITOR, or vi. On a terminal the plan is shown and confirmed. After an error, the file is kept.\n\n" +
			args.ExampleText("edit component grafana", "edit resource/network-policies podinfo"),
		Flags:  slices.Concat([]cli.Flag{change.DryRunFlag(), change.YesFlag()}, change.PlannedFlags()),
		Action: s.onDocument(func(c *cli.Context, v kindCommands, name string) error { return v.edit(c, name) }),
	}
}

// edit opens a document in the editor, and sends what was changed.
func (v kindCommands) edit(c *cli.Context, name string) error {
	client, err := v.Connect(c)
	if err != nil {
		return err
	}
	if v.ResourceType != "" { // the columns of the result
		of, err := v.typeOf(c.Context, client, v.ResourceType)
		if err != nil {
			return err
		}
		v.Kind = kinds.ResourcesOf(of)
	}
	found, err := conn.Receive(v.Calls.Get(c.Context, client, name))
	if err != nil {
		return err
	}
	text, err := manifests.Editable(v.ForFiles(), name, found.Body)
	if err != nil {
		return err
	}
	edited, file, err := v.editor().Edit(c.Context, text)
	if err == nil {
		err = v.changeEdited(c, name, cmp.Or(found.Etag, found.Revision), text, edited)
	}
	return edits(file, err)
}

func (s *session) editor() editor.Editor {
	return editor.Editor{
		Command: cmp.Or(s.Env.Getenv("VISUAL"), s.Env.Getenv("EDITOR")),
		Stdin:   s.Env.Stdin, Stdout: s.Stdout.Terminal(), Stderr: s.Env.Stderr,
	}
}

// edits removes the temporary file, or after an error adds its path to the error.
func edits(file string, err error) error {
	switch {
	case file == "":
		return err
	case err == nil || errors.Is(err, change.ErrDiffers):
		return errors.Join(err, os.Remove(file))
	case apiclient.ErrorCode(err) == "stale":
		return conn.WithHint(err, "another client changed it since: edit it again. Your version is kept in "+file)
	}
	return conn.WithHint(err, fmt.Sprintf("nothing was changed. Your version is kept in %s; to use it, run the same command with VISUAL='cp %s'", file, file))
}

// changeEdited sends the difference between a document's text before and after the edit. version is the document's ETag, or if a
// proxy removed it, the fleet's revision that was read.
func (v kindCommands) changeEdited(c *cli.Context, id, version string, before, after []byte) error {
	patch, err := manifests.EditPatch(kinds.ForFiles(), v.ForFiles(), before, after)
	if err != nil {
		return err
	}
	if len(patch) == 0 {
		v.Note("Nothing was edited.")
		return nil
	}
	return v.PerformOn(c, v.Kind, change.Change{
		Operations:  change.FixedOperations(v.Operation("patch", id, map[string]any{"patch": patch, "if_match": version})),
		Description: fmt.Sprintf("change %s/%s like this", v.Name, id), UnconfirmedInScripts: true,
	})
}
