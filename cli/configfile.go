package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"
)

// configFile holds the contexts: servers by name, with how to authenticate.
type configFile struct {
	CurrentContext string        `json:"current-context,omitempty"`
	Contexts       []fileContext `json:"contexts"`
}

// fileContext is one context.
type fileContext struct {
	Name       string      `json:"name"`
	APIURL     string      `json:"api-url,omitempty"`
	Token      tokenSource `json:"api-token,omitzero"`
	WriteToken tokenSource `json:"write-token,omitzero"`
	CAFile     string      `json:"ca-file,omitempty"`
	ClientCert string      `json:"client-cert,omitempty"`
	ClientKey  string      `json:"client-key,omitempty"`
	Timeout    string      `json:"timeout,omitempty"`
	Author     string      `json:"author,omitempty"`
}

func (f *configFile) find(name string) *fileContext {
	for i := range f.Contexts {
		if f.Contexts[i].Name == name {
			return &f.Contexts[i]
		}
	}
	return nil
}

// configPath is where the configuration is, or would be.
func (s *session) configPath(c *cli.Context) (string, error) {
	if path := first(c.String("config"), s.env.Getenv("FLUX_RESOURCESET_CONFIG")); path != "" {
		return path, nil
	}
	dir := s.env.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "flux-resourceset", "config.yaml"), nil
}

// loadConfig reads the configuration; one that does not exist is empty.
func (s *session) loadConfig(c *cli.Context) (*configFile, error) {
	path, err := s.configPath(c)
	if err != nil {
		return &configFile{}, nil //nolint:nilerr // no home directory: there can be no file, and nobody asked for one
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &configFile{}, nil
	}
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		s.warn(fmt.Sprintf("others on this machine can read %s, which may hold tokens: chmod 600 it", path))
	}
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var file configFile
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &file, nil
}

// saveConfig replaces the configuration file at once, so that an interruption leaves the old or the new one.
func (s *session) saveConfig(c *cli.Context, file *configFile) error {
	path, err := s.configPath(c)
	if err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil { // a link stays a link
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

// replaceFile writes a file that only its owner may read, at once.
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
