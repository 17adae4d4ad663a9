// Package migrations embeds the schema of every store backend, one directory each, as golang-migrate reads it:
// NNNN_name.up.sql and NNNN_name.down.sql. Numbers and names are the same for all backends, so that "schema version
// 3" means one thing.
//
// Every SQLite migration ends with `PRAGMA user_version` set to the version it leaves behind. SQLite writes that in
// the migration's own transaction, while golang-migrate keeps its version in transactions of its own: after a
// migrator was killed, user_version says which of the two happened. A test keeps the pragmas there.
//
// Postgres migrations run in one transaction together with the version they lead to, so they cannot contain what
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
