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
  documents bigint NOT NULL CHECK (documents >= 0)
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
  request_id text COLLATE "C" NOT NULL
);

CREATE INDEX commits_actor ON commits (actor, revision);

CREATE TABLE changes (
  revision bigint NOT NULL REFERENCES commits (revision),
  seq integer NOT NULL,
  kind text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  before text COLLATE "C",
  after text COLLATE "C",
  PRIMARY KEY (revision, seq),
  CHECK (before IS NOT NULL OR after IS NOT NULL)
);

-- The history of one document, without reading anybody else's.
CREATE INDEX changes_document ON changes (kind, id, revision);
