-- What clusters say of themselves is in a file of its own here, beside this one, so that commits never wait for it.

PRAGMA user_version = 6;
