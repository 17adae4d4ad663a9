package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"
)

// File holds the contexts: named servers with their credentials.
type File struct {
	CurrentContext string    `json:"current-context,omitempty"`
	Contexts       []Context `json:"contexts"`
}

// Context is one context.
type Context struct {
	Name       string      `json:"name"`
	APIURL     string      `json:"api-url,omitempty"`
	Token      TokenSource `json:"api-token,omitzero"`
	WriteToken TokenSource `json:"write-token,omitzero"`
	Session    TokenSource `json:"session,omitzero"` // of auth login; replaces the tokens
	CAFile     string      `json:"ca-file,omitempty"`
	ClientCert string      `json:"client-cert,omitempty"`
	ClientKey  string      `json:"client-key,omitempty"`
	Timeout    string      `json:"timeout,omitempty"`
	Author     string      `json:"author,omitempty"`
}

// Find returns the context of a name; nil without one.
func (f *File) Find(name string) *Context {
	for i := range f.Contexts {
		if f.Contexts[i].Name == name {
			return &f.Contexts[i]
		}
	}
	return nil
}

// Path returns the path of the configuration file, which may not exist.
func (w Environment) Path(c *cli.Context) (string, error) {
	if path := cmp.Or(c.String("config"), w.Getenv("FLUX_RESOURCESET_CONFIG")); path != "" {
		return path, nil
	}
	dir := w.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "flux-resourceset", "config.yaml"), nil
}

// Load reads the configuration; without a file it is empty.
func (w Environment) Load(c *cli.Context) (*File, error) {
	path, err := w.Path(c)
	if err != nil {
		return &File{}, nil //nolint:nilerr // no home directory: there can be no file, and nobody asked for one
	}
	info, err := os.Stat(path)
	if isMissing(err) {
		return &File{}, nil
	}
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		w.Warn(fmt.Sprintf("others on this machine can read %s, which may hold tokens: chmod 600 it", path))
	}
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file File
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &file, nil
}

// isMissing reports whether the file or one of its directories does not exist: HOME may be /dev/null.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Save replaces the configuration file atomically.
func (w Environment) Save(c *cli.Context, file *File) error {
	path, err := w.Path(c)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil { // replace the target of a symbolic link
		path = target
	}
	data, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replaceFile(path, data)
}

// replaceFile atomically writes a file that only its owner may read.
func replaceFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // created with mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
