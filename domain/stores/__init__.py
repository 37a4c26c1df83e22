"""The rules of the stores: from what an owner has to what shall change; pure, without I/O."""
