"""Whether the parts of an installation are as they should be."""
