"""The background runner: keeps views posted, in one process at a time."""
