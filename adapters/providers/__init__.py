"""Providers of resources' memory that need no ledger: in memory, and in a file of SQLite."""
