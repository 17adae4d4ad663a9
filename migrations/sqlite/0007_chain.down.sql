ALTER TABLE head DROP COLUMN checkpoint;
ALTER TABLE head DROP COLUMN hash;
ALTER TABLE commits DROP COLUMN checkpoint;
ALTER TABLE commits DROP COLUMN hash;
ALTER TABLE commits DROP COLUMN previous;

PRAGMA user_version = 6;
