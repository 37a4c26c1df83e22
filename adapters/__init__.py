"""The outside world: databases, keys, models, files and surfaces."""
