-- The commit log and the documents it adds up to. PostgreSQL 14 to 17.
--
-- Times are UTC microseconds since 1970, as in SQLite: to_timestamp(at / 1e6) shows one. Bodies are text, because they
-- are canonical JSON whose bytes have to come back as they were: jsonb would rewrite them, json would check them once
-- more on every write, bytea could not be read in psql. body::jsonb asks about one.
--
-- COLLATE "C" is byte order, which is the order of the Store contract, and an index in it survives an upgrade of the
-- system's C library (https://wiki.postgresql.org/wiki/Locale_data_changes).
--
-- Whoever runs this owns the tables; processes with API_MODE=crud need that role. For read-only processes:
--
--   CREATE ROLE fleet_reader LOGIN PASSWORD '...';
--   GRANT USAGE ON SCHEMA public TO fleet_reader;
--   GRANT SELECT ON ALL TABLES IN SCHEMA public TO fleet_reader;
--   ALTER DEFAULT PRIVILEGES FOR ROLE fleet_owner IN SCHEMA public GRANT SELECT ON TABLES TO fleet_reader;
--
-- The last line, said once as the owner, covers the tables of migrations to come.

-- The one point where history grows: every commit moves this row, inside its transaction and last of all.
CREATE TABLE head (
  single integer PRIMARY KEY CHECK (single = 1),
  revision bigint NOT NULL CHECK (revision >= 0),
  commit_id uuid NOT NULL,
  at bigint NOT NULL,
  -- How many documents there are. Load refuses to serve a different number of them.
  documents bigint NOT NULL CHECK (documents >= 0),
  -- The oldest revision that the log holds whole. Of older ones it has at most what documents were like at this one.
  oldest bigint NOT NULL DEFAULT 1,
  -- The quarantine, as JSON: why the content is not served until an operator accepts it; empty: it is served. Every query for the
  -- head sees it, and only the commit that accepts it empties it. docs/outages.md has the GRANT that lets read-only roles set it.
  hold text NOT NULL DEFAULT '',
  -- The hash of the commit at the head; NULL without commits.
  hash bytea,
  -- The oldest revision that the log holds whole, in eight bytes, and a SHA-256 over what is kept of the revisions before it.
  checkpoint bytea
);

INSERT INTO head (single, revision, commit_id, at, documents)
VALUES (1, 0, '00000000-0000-0000-0000-000000000000', 0, 0);

CREATE TABLE documents (
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  commit_id uuid NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  body text COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, id)
);

CREATE TABLE commits (
  revision bigint CONSTRAINT commits_revision PRIMARY KEY CHECK (revision > 0),
  id uuid NOT NULL CONSTRAINT commits_id UNIQUE,
  at bigint NOT NULL,
  actor text COLLATE "C" NOT NULL,
  reason text COLLATE "C" NOT NULL,
  request_id text COLLATE "C" NOT NULL,
  -- The person behind the actor, as the actor claims.
  author text COLLATE "C" NOT NULL DEFAULT '',
  -- The requested operations, as JSON of at most 4 KiB; empty: unknown.
  operations text COLLATE "C" NOT NULL DEFAULT '',
  -- The hash chain over the log: the hash of the commit before, and of this one, which covers that hash and everything that the log
  -- has of this commit (package store, chain.go). NULL in a copy of a shortened log, for what is kept of commits before its oldest.
  previous bytea,
  hash bytea,
  -- The checkpoint that head had when the commit was made; it is covered by the hash.
  checkpoint bytea
);

CREATE INDEX commits_actor ON commits (actor, revision);

CREATE TABLE changes (
  revision bigint NOT NULL REFERENCES commits (revision),
  seq integer NOT NULL,
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  -- An empty text where there is a document, else NULL. The documents are packed below.
  before text COLLATE "C",
  after text COLLATE "C",
  -- create, update or delete, as fleet.Change.Action has it: lists of changes need not read documents to know. A
  -- decommissioned cluster is deleted, although its document stays.
  action text COLLATE "C" NOT NULL DEFAULT 'update',
  -- The document before the change, as the difference from the one after it. That one is the one before the next change, or the
  -- document itself.
  packed_before bytea,
  -- The document after the change, of some changes: the way back from the document to a change never becomes long.
  packed_after bytea,
  -- A checksum of the document after the change, and how large both are.
  sum bigint NOT NULL DEFAULT 0,
  bytes bigint,
  PRIMARY KEY (revision, seq),
  CHECK (before IS NOT NULL OR after IS NOT NULL)
);

-- The history of one document, without reading anybody else's.
CREATE INDEX changes_document ON changes (kind, id, revision);

-- When a document was created, without reading what happened to it since.
CREATE INDEX changes_created ON changes (kind, id, revision) WHERE action = 'create';

-- Where the way back may start.
CREATE INDEX changes_whole ON changes (kind, id, revision) WHERE packed_after IS NOT NULL OR after IS NULL;

-- The status that clusters report: the newest of each subject, lost without harm. It is no part of the fleet: no commit, no answer to
-- a poll and no export depends on it, and it refers to nothing. docs/databases.md has the GRANT for read-only roles.
-- said is when the cluster said it, at when it was written here, both in microseconds since 1970.
-- IF NOT EXISTS: where the tables of the fleet were dropped, the remaining ones may be left.
CREATE TABLE IF NOT EXISTS observations (
  cluster_id text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  body text COLLATE "C" NOT NULL,
  said bigint NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (cluster_id, subject)
);

-- By which every process asks for what is new.
CREATE INDEX IF NOT EXISTS observations_at ON observations (at);

-- Sessions of the fleet page that were ended early, by their random ids, until they would have ended by themselves. They are no part
-- of the fleet: no backup and no copy has them.
CREATE TABLE IF NOT EXISTS ended_sessions (
  id text COLLATE "C" PRIMARY KEY,
  until bigint NOT NULL -- microseconds since 1970
);
