"""The commands of the stores: one module for each family, one group for each store."""
