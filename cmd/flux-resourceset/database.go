package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/flux-resourceset/flux-resourceset/clusterstatus"
	"github.com/flux-resourceset/flux-resourceset/store"
	"github.com/flux-resourceset/flux-resourceset/store/postgres"
	"github.com/flux-resourceset/flux-resourceset/store/sqlite"
)

// database is the store that DATABASE_URL names. It can be opened and its schema can be migrated.
type database interface {
	// name is the value of STORE_BACKEND for this store.
	name() string
	// where describes the location for people, without secrets.
	where() string
	open(ctx context.Context, readOnly bool) (store.Store, error)
	// onFirstUse returns a store that is prepared and opened on first use.
	onFirstUse(readOnly bool, prepare func(context.Context) error) (store.Store, error)
	migrate(ctx context.Context) error
	status(ctx context.Context) (store.SchemaStatus, error)
	// observations returns the table of cluster status shared by processes; nil for a memory store. It may not exist yet.
	observations() (clusterstatus.Store, error)
}

// Backends of the store.
const (
	backendSQLite   = "sqlite"
	backendMemory   = "memory"
	backendPostgres = "postgres"
)

const isPadded = "begins or ends with a space, or has a newline or another control character: echo adds a newline to a Secret, so use printf or --from-literal"

// padded reports whether the text of a secret setting has more than was meant.
func padded(text string) bool {
	return strings.TrimSpace(text) != text || strings.ContainsFunc(text, unicode.IsControl)
}

// parseDatabase reads a database URL. Its errors contain no part of the text, since any part may belong to a password.
func parseDatabase(raw string) (database, error) {
	if padded(raw) {
		return nil, errors.New("it " + isPadded + "; write %20 for a space of a path")
	}
	scheme, _, _ := strings.Cut(raw, ":")
	switch strings.ToLower(scheme) {
	case "sqlite":
		cfg, err := sqlite.ParseURL(raw)
		if err != nil {
			return nil, err
		}
		if cfg.Memory {
			cfg.Path = sqlite.MemoryName() // all stores of this process share it
		}
		return sqliteDatabase{cfg}, nil
	case "postgres", "postgresql":
		cfg, err := postgres.ParseURL(raw)
		if err != nil {
			return nil, err
		}
		return postgresDatabase{cfg}, nil
	}
	return nil, errors.New("it is not the URL of a store, which starts with sqlite: or postgres://")
}

type sqliteDatabase struct{ cfg sqlite.Config }

func (d sqliteDatabase) observations() (clusterstatus.Store, error) {
	if d.cfg.Memory {
		return nil, nil //nolint:nilnil // a memory store has none
	}
	return sqlite.NewObservations(d.cfg.Path), nil
}

func (d sqliteDatabase) name() string {
	if d.cfg.Memory {
		return backendMemory
	}
	return backendSQLite
}

func (d sqliteDatabase) where() string {
	if d.cfg.Memory {
		return "memory"
	}
	return d.cfg.Path
}

func (d sqliteDatabase) open(ctx context.Context, readOnly bool) (store.Store, error) {
	st, err := sqlite.Open(ctx, d.config(readOnly))
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (d sqliteDatabase) onFirstUse(readOnly bool, prepare func(context.Context) error) (store.Store, error) {
	cfg := d.config(readOnly)
	cfg.Prepare = prepare
	return sqlite.New(cfg), nil
}

func (d sqliteDatabase) config(readOnly bool) sqlite.Config {
	cfg := d.cfg
	cfg.ReadOnly = cfg.ReadOnly || readOnly && !cfg.Memory // a memory store is filled by this process only
	return cfg
}

var errMemory = &configError{[]string{"a memory store has no schema to manage"}}

func (d sqliteDatabase) migrate(ctx context.Context) error {
	if d.cfg.Memory {
		return errMemory
	}
	if err := os.MkdirAll(filepath.Dir(d.cfg.Path), 0o750); err != nil {
		return err
	}
	return sqlite.Migrate(ctx, d.cfg.Path)
}

func (d sqliteDatabase) status(ctx context.Context) (store.SchemaStatus, error) {
	if d.cfg.Memory {
		return store.SchemaStatus{}, errMemory
	}
	return sqlite.Status(ctx, d.cfg.Path)
}

// exists reports whether the database file exists. An empty one is no database yet.
func (d sqliteDatabase) exists() bool {
	info, err := os.Stat(d.cfg.Path)
	return err == nil && info.Size() > 0 || err != nil && !errors.Is(err, os.ErrNotExist)
}

type postgresDatabase struct{ cfg postgres.Config }

func (d postgresDatabase) name() string { return backendPostgres }

// where returns the URL without user, password and parameters.
func (d postgresDatabase) where() string {
	_, rest, _ := strings.Cut(d.cfg.URL, "://")
	rest, _, _ = strings.Cut(rest, "?")
	return "postgres://" + rest[strings.LastIndex(rest, "@")+1:]
}

func (d postgresDatabase) observations() (clusterstatus.Store, error) {
	o, err := postgres.NewObservations(d.cfg)
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (d postgresDatabase) open(ctx context.Context, readOnly bool) (store.Store, error) {
	cfg := d.cfg
	cfg.ReadOnly = readOnly
	st, err := postgres.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (d postgresDatabase) onFirstUse(readOnly bool, prepare func(context.Context) error) (store.Store, error) {
	cfg := d.cfg
	cfg.ReadOnly, cfg.Prepare = readOnly, prepare
	st, err := postgres.New(cfg)
	if err != nil {
		return nil, err
	}
	return st, nil
}

func (d postgresDatabase) migrate(ctx context.Context) error { return postgres.Migrate(ctx, d.cfg.URL) }

func (d postgresDatabase) status(ctx context.Context) (store.SchemaStatus, error) {
	return postgres.Status(ctx, d.cfg.URL)
}
