"""The Python surface: a ledger, and memories bound to a principal."""
