-- The commit log and the documents it adds up to.
-- Times are UTC microseconds since 1970. Bodies are canonical JSON, kept byte for byte.

-- The one point where history grows: every commit moves this row, inside its transaction.
CREATE TABLE head (
  single INTEGER PRIMARY KEY CHECK (single = 1),
  revision INTEGER NOT NULL CHECK (revision >= 0),
  commit_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  -- How many documents there are. Load refuses to serve a different number of them.
  documents INTEGER NOT NULL CHECK (documents >= 0)
) STRICT;

INSERT INTO head (single, revision, commit_id, at, documents)
VALUES (1, 0, '00000000-0000-0000-0000-000000000000', 0, 0);

CREATE TABLE documents (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  revision INTEGER NOT NULL,
  commit_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE commits (
  revision INTEGER PRIMARY KEY CHECK (revision > 0),
  id TEXT NOT NULL UNIQUE,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  request_id TEXT NOT NULL
) STRICT;

CREATE INDEX commits_actor ON commits (actor, revision);

CREATE TABLE changes (
  revision INTEGER NOT NULL REFERENCES commits (revision),
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  before TEXT,
  after TEXT,
  PRIMARY KEY (revision, seq),
  CHECK (before IS NOT NULL OR after IS NOT NULL)
) STRICT;

-- The history of one document, without reading anybody else's.
CREATE INDEX changes_document ON changes (kind, id, revision);

PRAGMA user_version = 1;
