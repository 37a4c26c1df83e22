"""Embedders: the default one, a simple one for tests, and the choice between them."""
