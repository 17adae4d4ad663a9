package fluxexport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/flux-resourceset/flux-resourceset/cli/internal/render"
)

// segment matches a name that is a folder in its parent on every system, and needs no quotes in YAML.
var segment = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// Write creates the folder DIR/CLUSTER with a folder for each list and a kustomization.yaml that has all of them. The folder appears
// complete or not at all; an existing one stays, and the error wraps [ErrExists].
func (e Export) Write(dir, cluster string) (err error) {
	if !segment.MatchString(cluster) {
		return fmt.Errorf("cluster %q cannot have a folder", cluster)
	}
	target := filepath.Join(dir, cluster)
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", target, errors.Join(err, ErrExists))
	}
	files, err := e.files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(dir, ".export-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	if err := os.Chmod(temporary, 0o750); err != nil { //nolint:gosec // a folder, as the others that the program creates
		return err
	}
	for name, text := range files {
		path := filepath.Join(temporary, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
	return os.Rename(temporary, target)
}

// files returns the text of each file by its path below the folder of the cluster.
func (e Export) files() (map[string][]byte, error) {
	var root bytes.Buffer
	root.WriteString("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n")
	files := map[string][]byte{}
	for _, list := range e.Lists {
		name := list.Name + "/objects.yaml"
		if !segment.MatchString(list.Name) || files[name] != nil {
			return nil, fmt.Errorf("ResourceSet %q cannot have a folder of its own", list.Name)
		}
		var text bytes.Buffer
		for _, obj := range list.Objects {
			raw, err := json.Marshal(obj)
			if err != nil {
				return nil, err
			}
			one, err := render.YAML(raw)
			if err != nil {
				return nil, err
			}
			text.WriteString("---\n")
			text.Write(one)
		}
		files[name] = text.Bytes()
		root.WriteString("  - " + name + "\n")
	}
	files["kustomization.yaml"] = root.Bytes()
	return files, nil
}
