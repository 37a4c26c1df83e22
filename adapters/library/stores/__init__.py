"""The stores: one class for each kind of memory, on a handle that says whose it is."""
