"""Posting events from the ledger into views."""
