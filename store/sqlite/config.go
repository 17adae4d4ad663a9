package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Config is the configuration of a database file. The zero value is not valid: it has no path.
type Config struct {
	// Path of the database file. With Memory a name, under which the process shares the database; empty: a database of its own.
	Path string
	// Memory keeps the database in this process only, and only until the last store on it is closed. Open migrates it.
	Memory bool
	// ReadOnly never writes to the database. SQLite still needs a writable directory, for the file by which the
	// processes that share a database see each other's commits (https://www.sqlite.org/wal.html#readonly).
	ReadOnly bool
	// Prepare is called before the database is opened, for example to migrate it; nil: it is ready.
	Prepare func(context.Context) error
}

// ParseURL parses a DATABASE_URL of this backend: sqlite://relative/path, sqlite:///absolute/path or sqlite::memory:.
//
// The only parameter is mode, with SQLite's meanings (https://www.sqlite.org/uri.html): ro opens read-only, memory keeps the
// database in memory, rw and rwc are accepted without effect, since the process that migrates the file decides whether it may
// be created. Other parameters are refused, so that a misspelt option is not silently ignored.
func ParseURL(databaseURL string) (Config, error) {
	rest, ok := strings.CutPrefix(databaseURL, "sqlite:")
	if !ok {
		return Config{}, errors.New(`an SQLite URL starts with "sqlite://"`)
	}
	rest, query, _ := strings.Cut(rest, "?")
	cfg, err := parsePath(rest)
	if err != nil {
		return Config{}, err
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return Config{}, fmt.Errorf("parameters of the SQLite URL: %w", err)
	}
	for name, values := range params {
		if name != "mode" {
			return Config{}, fmt.Errorf("unknown parameter %q of the SQLite URL; only mode is known", name)
		}
		if len(values) != 1 {
			return Config{}, errors.New("the SQLite URL sets mode more than once")
		}
		switch values[0] {
		case "rw", "rwc":
		case "ro":
			cfg.ReadOnly = true
		case "memory":
			cfg.Memory = true
		default:
			return Config{}, fmt.Errorf("unknown mode %q of the SQLite URL: want rwc, rw, ro or memory", values[0])
		}
	}
	if cfg.Memory {
		cfg.Path = ""
		if cfg.ReadOnly {
			return Config{}, errors.New("a database in memory cannot be read-only: nothing could ever be in it")
		}
	}
	return cfg, nil
}

func parsePath(rest string) (Config, error) {
	if rest == ":memory:" || rest == "//:memory:" {
		return Config{Memory: true}, nil
	}
	path, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return Config{}, errors.New("an SQLite URL is sqlite::memory:, sqlite://relative/path or sqlite:///absolute/path")
	}
	path, err := url.PathUnescape(path)
	switch {
	case err != nil:
		return Config{}, fmt.Errorf("path of the SQLite URL: %w", err)
	case path == "":
		return Config{}, errors.New("the SQLite URL names no file")
	case strings.ContainsRune(path, 0):
		return Config{}, errors.New("the path of the SQLite URL contains a NUL character")
	}
	return Config{Path: filepath.Clean(path)}, nil
}
