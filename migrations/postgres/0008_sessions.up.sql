-- Sessions of the fleet page that somebody has ended, by their random ids, until they would have ended by themselves. It is no part of
-- the fleet: no backup and no copy has it.
CREATE TABLE ended_sessions (
  id text COLLATE "C" PRIMARY KEY,
  until bigint NOT NULL -- microseconds since 1970
);
