-- Why what the store holds is not to be served until an operator accepts it, as JSON; empty: it is. Whoever asks for the
-- head sees it, and only the commit that accepts it empties it. docs/outages.md has the GRANT that lets read-only
-- roles set it.
ALTER TABLE head ADD COLUMN hold TEXT NOT NULL DEFAULT '';

PRAGMA user_version = 4;
