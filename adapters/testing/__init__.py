"""What users' own tests need; the product imports nothing of it."""
