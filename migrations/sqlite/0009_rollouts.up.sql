-- No table changes: versions below 9 cannot read rollouts and strategies.

PRAGMA user_version = 9;
