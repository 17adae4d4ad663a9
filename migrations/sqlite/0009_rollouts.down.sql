-- Delete rollouts and strategies before: an older version refuses a store that has one.

PRAGMA user_version = 8;
