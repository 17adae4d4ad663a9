-- What clusters said is in a file of its own, which nobody misses.

PRAGMA user_version = 5;
