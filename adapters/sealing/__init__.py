"""Sealing: the Merkle trees of the logs are extended and their checkpoints signed."""
