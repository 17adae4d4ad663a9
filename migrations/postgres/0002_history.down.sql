ALTER TABLE head DROP COLUMN oldest;
DROP INDEX changes_created;
ALTER TABLE changes DROP COLUMN action;
ALTER TABLE commits DROP COLUMN author;
