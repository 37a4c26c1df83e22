"""Memory of resources in one file of SQLite, with an index of vectors where sqlite-vec is there."""
