"""Bulk import: files and lines from elsewhere become memories, each stored exactly once."""
