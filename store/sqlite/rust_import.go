package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/flux-resourceset/flux-resourceset/store/internal/sqlstore"
)

// Reference is the content of a database file of the reference implementation (in Rust): the JSON documents of each table as
// they were stored, ordered by id.
type Reference struct {
	Clusters     []json.RawMessage
	Components   []json.RawMessage
	Namespaces   []json.RawMessage
	RoleBindings []json.RawMessage
}

// The reference's tables, each (id TEXT PRIMARY KEY, data TEXT).
var referenceTables = []string{"clusters", "components", "namespaces", "rolebindings"}

func (c contents) isReference() bool {
	for _, t := range referenceTables {
		if !c.has(t) {
			return false
		}
	}
	return true
}

// ReadReference reads a database file written by the reference implementation and does not change it. It returns nil
// when path is not such a file, does not exist, or has been imported: our own log in it is no longer empty. So an
// import that was interrupted between Migrate and its commit starts again.
func ReadReference(ctx context.Context, path string) (*Reference, error) {
	var ref *Reference
	err := readForeign(ctx, path, func(tx *sql.Tx) error {
		found, err := readContents(ctx, tx, path)
		if err != nil || !found.isReference() || found.revision > 0 {
			return err
		}
		r := &Reference{}
		for i, into := range []*[]json.RawMessage{&r.Clusters, &r.Components, &r.Namespaces, &r.RoleBindings} {
			if *into, err = readReferenceTable(ctx, tx, referenceTables[i]); err != nil {
				return err
			}
		}
		ref = r
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ref, nil
}

func readReferenceTable(ctx context.Context, tx *sql.Tx, table string) ([]json.RawMessage, error) {
	scan := func(rows sqlstore.Rows, doc *json.RawMessage) error {
		var id string
		var data sql.NullString
		if err := rows.Scan(&id, &data); err != nil {
			return err
		}
		// A NULL must be an error here: the caller would decode it into an empty document.
		if !data.Valid {
			return fmt.Errorf("%q has no document", id)
		}
		*doc = json.RawMessage(data.String)
		return nil
	}
	docs, err := sqlstore.Query(ctx, reading{tx.QueryContext}, scan, `SELECT id, data FROM `+table+` ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", table, err)
	}
	return docs, nil
}
