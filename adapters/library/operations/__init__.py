"""Live operations: adds and searches with a handle, and the events that processes share."""
