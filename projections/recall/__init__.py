"""The recall view: versions of memories in LanceDB, searched by keyword and by vector."""
