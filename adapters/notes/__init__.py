"""C2SP texts: signed notes, checkpoints of logs, and proofs that travel with their checkpoint."""
