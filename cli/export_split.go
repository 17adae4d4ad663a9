package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/args"
	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
	"github.com/flux-resourceset/flux-resourceset/internal/summarize"
	"github.com/urfave/cli/v2"
)

// exportedFile is a document with a file of its own.
type exportedFile struct {
	kind     documentKind
	id       string
	document json.RawMessage
}

// path returns the file below the directory: clusters/demo-cluster-01.yaml.
func (f exportedFile) path() (string, error) {
	dir, name := filepath.FromSlash(f.kind.list), f.id+".yaml"
	if f.kind.resourceType != "" {
		dir = filepath.Join("resources", f.kind.resourceType)
	}
	// Ids contain no separators today; one with a separator must not leave the directory.
	if path := filepath.Join(dir, name); !strings.ContainsAny(f.id, `/\`) && filepath.IsLocal(path) {
		return path, nil
	}
	return "", fmt.Errorf("%s/%s cannot be the name of a file", f.kind.name, f.id)
}

// split writes documents into files that apply can read. The directory must be empty, because apply would also read the files of an
// earlier export.
func (s exporter) split(c *cli.Context, files []exportedFile) error {
	dir := c.String("split")
	if dir == "" || c.IsSet("output") {
		return args.Errorf("--split needs a directory, and excludes --output: the files are YAML")
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: nothing was written, because apply would also read the files in it", dir)
	}
	for _, f := range files {
		if err := f.write(dir); err != nil {
			return err
		}
	}
	s.note("%s written to %s.", summarize.Count(len(files), "document"), dir)
	return nil
}

func (f exportedFile) write(dir string) error {
	path, err := f.path()
	if err != nil {
		return err
	}
	kind := f.kind.name
	document := json.RawMessage(`{"kind":` + strconv.Quote(kind) + "," + string(bytes.TrimPrefix(bytes.TrimSpace(f.document), []byte("{"))))
	var text bytes.Buffer
	if err := (render.Output{Document: document, Ends: true}).Write(&text, render.Style{Format: "yaml"}); err != nil {
		return err
	}
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}
