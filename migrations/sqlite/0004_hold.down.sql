ALTER TABLE head DROP COLUMN hold;

PRAGMA user_version = 3;
