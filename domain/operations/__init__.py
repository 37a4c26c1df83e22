"""Operations: work with a handle, its scope, and what an add takes from messages."""
