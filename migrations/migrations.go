// Package migrations embeds the schema of every store backend, one directory each, in the format of golang-migrate:
// NNNN_name.up.sql. They go up only. Numbers and names are the same for all backends, so that "schema version 3" is unambiguous.
//
// Every SQLite migration ends with `PRAGMA user_version` set to its resulting version. SQLite writes it in the migration's own
// transaction, while golang-migrate keeps its version in separate transactions: after a migrator was killed, user_version shows
// whether the migration was executed. A test checks these pragmas.
//
// Postgres migrations run in one transaction together with the resulting version, so they cannot contain statements that
// Postgres refuses inside a transaction (CREATE INDEX CONCURRENTLY and the like).
package migrations

import "embed"

// SQLite is the schema of the SQLite backend, in the directory "sqlite".
//
//go:embed sqlite/*.sql
var SQLite embed.FS

// Postgres is the schema of the Postgres backend, in the directory "postgres".
//
//go:embed postgres/*.sql
var Postgres embed.FS
