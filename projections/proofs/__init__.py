"""Proofs that nobody changed the log: the Merkle tree over its leaves, and its check."""
