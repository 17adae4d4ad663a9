-- The commit log and the documents it adds up to.
-- Times are UTC microseconds since 1970. Bodies are canonical JSON, kept byte for byte. The status that clusters report is in a
-- file of its own beside this one, so that commits never wait for it.

-- The one point where history grows: every commit moves this row, inside its transaction.
CREATE TABLE head (
  single INTEGER PRIMARY KEY CHECK (single = 1),
  revision INTEGER NOT NULL CHECK (revision >= 0),
  commit_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  -- How many documents there are. Load refuses to serve a different number of them.
  documents INTEGER NOT NULL CHECK (documents >= 0),
  -- The oldest revision that the log holds whole. Of older ones it has at most what documents were like at this one.
  oldest INTEGER NOT NULL DEFAULT 1,
  -- The quarantine, as JSON: why the content is not served until an operator accepts it; empty: it is served. Every query for the
  -- head sees it, and only the commit that accepts it empties it.
  hold TEXT NOT NULL DEFAULT '',
  -- The hash of the commit at the head; NULL without commits.
  hash BLOB,
  -- The oldest revision that the log holds whole, in eight bytes, and a SHA-256 over what is kept of the revisions before it.
  checkpoint BLOB
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
  request_id TEXT NOT NULL,
  -- The person behind the actor, as the actor claims.
  author TEXT NOT NULL DEFAULT '',
  -- The requested operations, as JSON of at most 4 KiB; empty: unknown.
  operations TEXT NOT NULL DEFAULT '',
  -- The hash chain over the log: the hash of the commit before, and of this one, which covers that hash and everything that the log
  -- has of this commit (package store, chain.go). NULL in a copy of a shortened log, for what is kept of commits before its oldest.
  previous BLOB,
  hash BLOB,
  -- The checkpoint that head had when the commit was made; it is covered by the hash.
  checkpoint BLOB
) STRICT;

CREATE INDEX commits_actor ON commits (actor, revision);

CREATE TABLE changes (
  revision INTEGER NOT NULL REFERENCES commits (revision),
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  -- An empty text where there is a document, else NULL. The documents are packed below.
  before TEXT,
  after TEXT,
  -- create, update or delete, as fleet.Change.Action has it: lists of changes need not read documents to know. A
  -- decommissioned cluster is deleted, although its document stays.
  action TEXT NOT NULL DEFAULT 'update',
  -- The document before the change, as the difference from the one after it. That one is the one before the next change, or the
  -- document itself.
  packed_before BLOB,
  -- The document after the change, of some changes: the way back from the document to a change never becomes long.
  packed_after BLOB,
  -- A checksum of the document after the change, and how large both are.
  sum INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER,
  PRIMARY KEY (revision, seq),
  CHECK (before IS NOT NULL OR after IS NOT NULL)
) STRICT;

-- The history of one document, without reading anybody else's.
CREATE INDEX changes_document ON changes (kind, id, revision);

-- When a document was created, without reading what happened to it since.
CREATE INDEX changes_created ON changes (kind, id, revision) WHERE action = 'create';

-- Where the way back may start.
CREATE INDEX changes_whole ON changes (kind, id, revision) WHERE packed_after IS NOT NULL OR after IS NULL;

-- Sessions of the fleet page that were ended early, by their random ids, until they would have ended by themselves. They are no part
-- of the fleet: no backup and no copy has them. IF NOT EXISTS: where the tables of the fleet were dropped, this one may be left.
CREATE TABLE IF NOT EXISTS ended_sessions (
  id TEXT PRIMARY KEY,
  until INTEGER NOT NULL -- microseconds since 1970
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 1;
