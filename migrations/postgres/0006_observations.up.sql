-- What clusters say of themselves: the newest of each sort, lost without harm. It is no part of the fleet: no commit, no answer to
-- a poll and no export depends on it, and it refers to nothing. docs/databases.md has the GRANT for read-only roles.
-- said is when the cluster said it, at when it was written here, both in microseconds since 1970.
CREATE TABLE IF NOT EXISTS observations (
	cluster_id text COLLATE "C" NOT NULL,
	subject    text COLLATE "C" NOT NULL,
	body       text COLLATE "C" NOT NULL,
	said       bigint NOT NULL,
	at         bigint NOT NULL,
	PRIMARY KEY (cluster_id, subject)
);

-- By which every process asks for what is new.
CREATE INDEX IF NOT EXISTS observations_at ON observations (at);
