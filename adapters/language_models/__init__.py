"""Language models: adapters of the port ``ModelProvider``."""
