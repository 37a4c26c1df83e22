"""The use cases: one code path under every surface."""
