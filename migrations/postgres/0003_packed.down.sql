-- The program has unpacked every change before. One that was written since would be lost: this fails then, and unpacks it
-- the next time.
CREATE TABLE still_packed (changes INTEGER CHECK (changes = 0));
INSERT INTO still_packed SELECT count(*) FROM changes WHERE before = '' OR after = '';
DROP TABLE still_packed;

DROP INDEX changes_whole;
ALTER TABLE changes DROP COLUMN bytes;
ALTER TABLE changes DROP COLUMN sum;
ALTER TABLE changes DROP COLUMN packed_after;
ALTER TABLE changes DROP COLUMN packed_before;

-- What remembers removals and forgotten clusters is of kinds that binaries of older versions may not know, which would not
-- load the store then.
DELETE FROM changes WHERE kind IN ('budget', 'forgotten');
UPDATE head SET documents = documents - (SELECT count(*) FROM documents WHERE kind IN ('budget', 'forgotten'));
DELETE FROM documents WHERE kind IN ('budget', 'forgotten');
