-- The log without saying everything twice. A change that is written from now on has an empty text in before and after, where
-- there is a document, and keeps what it found as the difference from what it left behind, which is what the next change
-- found, or the document itself. Changes that were written before stay as they are, and are read as they are.

ALTER TABLE changes ADD COLUMN packed_before bytea;

-- What the change left behind, of some changes: the way back from the document to a change never becomes long.
ALTER TABLE changes ADD COLUMN packed_after bytea;

-- A checksum of what it left behind, and how large both are.
ALTER TABLE changes ADD COLUMN sum bigint NOT NULL DEFAULT 0;
ALTER TABLE changes ADD COLUMN bytes bigint;

-- Where the way back may start.
CREATE INDEX changes_whole ON changes (kind, id, revision) WHERE packed_after IS NOT NULL OR after IS NULL;
