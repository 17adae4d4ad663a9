package storetest

import (
	"fmt"
	"io/fs"
	"testing/fstest"
)

// MadeRows is how many rows each table of [Migrations] has.
const MadeRows = 1000

// Migrations returns a backend's migrations, and more of them up to the schema version newest: each makes and fills the table
// made_VERSION. Backends kill migrators in them.
func Migrations(files fs.FS, dir string, newest int) (fstest.MapFS, error) {
	all := fstest.MapFS{}
	entries, err := fs.ReadDir(files, dir)
	for _, e := range entries {
		name := dir + "/" + e.Name()
		var content []byte
		if content, err = fs.ReadFile(files, name); err != nil {
			break
		}
		all[name] = &fstest.MapFile{Data: content}
	}
	for version := len(entries) + 1; version <= newest; version++ {
		statements := fmt.Sprintf(`CREATE TABLE made_%[1]d (n integer);
			WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %[2]d) INSERT INTO made_%[1]d SELECT n FROM numbers;`, version, MadeRows)
		if dir == "sqlite" {
			statements += fmt.Sprintf("\nPRAGMA user_version = %d;\n", version)
		}
		all[fmt.Sprintf("%s/%04d_made.up.sql", dir, version)] = &fstest.MapFile{Data: []byte(statements)}
	}
	return all, err
}

// DevelopmentDatabases returns SQL that turns a migrated database into one of development builds, with the schema versions that these
// counted.
func DevelopmentDatabases() map[string]string {
	const renamed = `ALTER TABLE schema_version RENAME TO schema_migrations;`
	return map[string]string{
		"version 10":                renamed + `UPDATE schema_migrations SET version = 10`,
		"version 2":                 renamed + `UPDATE schema_migrations SET version = 2`,
		"version 1":                 renamed + `ALTER TABLE head DROP COLUMN hash; ALTER TABLE head DROP COLUMN hold; ALTER TABLE head DROP COLUMN oldest`,
		"an interrupted migration":  renamed + `UPDATE schema_migrations SET version = 10, dirty = true`,
		"no version after all that": renamed + `DELETE FROM schema_migrations`,
	}
}
