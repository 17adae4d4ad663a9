-- The hash chain over the log. Each commit keeps the hash of the commit before it and its own, which covers that one and everything
-- that the log says of the commit: package store, chain.go. NULL: the commit was made by a version before, and is not in the chain yet;
-- a process that may write adds it.

ALTER TABLE commits ADD COLUMN previous bytea;
ALTER TABLE commits ADD COLUMN hash bytea;

-- The checkpoint that head had when the commit was made; it is covered by the hash.
ALTER TABLE commits ADD COLUMN checkpoint bytea;

-- The hash of the commit at the head; NULL: it is not in the chain yet.
ALTER TABLE head ADD COLUMN hash bytea;

-- The oldest revision that the log holds whole, in eight bytes, and a SHA-256 over what is kept of the revisions before it.
ALTER TABLE head ADD COLUMN checkpoint bytea;
