-- Delete access documents, webhooks and components with version policies before: an older version refuses a store that has one.

PRAGMA user_version = 9;
