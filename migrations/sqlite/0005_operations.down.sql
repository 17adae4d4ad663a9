ALTER TABLE commits DROP COLUMN operations;

PRAGMA user_version = 4;
