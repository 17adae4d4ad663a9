-- No table changes: versions below 10 cannot read access documents, ends of sessions, webhooks, or the records of version policies.

PRAGMA user_version = 10;
