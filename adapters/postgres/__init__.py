"""The ledger in PostgreSQL: schema, append function, group commit, readers and subscription."""
