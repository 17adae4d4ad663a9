ALTER TABLE commits DROP COLUMN operations;
