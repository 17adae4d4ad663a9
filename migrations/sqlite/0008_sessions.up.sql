-- Sessions of the fleet page that somebody has ended, by their random ids, until they would have ended by themselves. It is no part of
-- the fleet: no backup and no copy has it. IF NOT EXISTS: where the tables of the fleet were dropped, this one may be left.
CREATE TABLE IF NOT EXISTS ended_sessions (
  id TEXT PRIMARY KEY,
  until INTEGER NOT NULL -- microseconds since 1970
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 8;
