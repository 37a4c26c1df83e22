"""Bundles: logs of a tenant with everything that a stranger needs to check them."""
