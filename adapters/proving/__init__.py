"""Proofs for auditors: receipts, consistency of checkpoints, and verification against them."""
