-- What a commit was asked for, as JSON of at most 4 KiB; empty: it is not known, as for every commit made before this column was.
ALTER TABLE commits ADD COLUMN operations TEXT NOT NULL DEFAULT '';

PRAGMA user_version = 5;
