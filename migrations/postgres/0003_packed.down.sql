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
