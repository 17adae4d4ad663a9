-- What the log says about a change beside its documents.

-- Who stands behind a commit, as its actor claims.
ALTER TABLE commits ADD COLUMN author TEXT NOT NULL DEFAULT '';

-- create, update or delete, as fleet.Change.Action has it: lists of changes need not read documents to know. A
-- decommissioned cluster is deleted, although its document stays.
ALTER TABLE changes ADD COLUMN action TEXT NOT NULL DEFAULT 'update';

UPDATE changes SET action = CASE
    WHEN after IS NULL OR kind = 'cluster' AND after ->> '$.deleted_at' <> '' THEN 'delete'
    ELSE 'create' END
WHERE before IS NULL OR after IS NULL
   OR kind = 'cluster' AND (after ->> '$.deleted_at' <> '' OR before ->> '$.deleted_at' <> '');

-- When a document was created, without reading what happened to it since.
CREATE INDEX changes_created ON changes (kind, id, revision) WHERE action = 'create';

-- The oldest revision that the log holds whole. Of older ones it has at most what documents were like at this one.
ALTER TABLE head ADD COLUMN oldest INTEGER NOT NULL DEFAULT 1;

PRAGMA user_version = 2;
