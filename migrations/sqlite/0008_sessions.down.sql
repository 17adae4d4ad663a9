DROP TABLE ended_sessions;

PRAGMA user_version = 7;
