DROP TABLE changes;
DROP TABLE commits;
DROP TABLE documents;
DROP TABLE head;
