"""PostgreSQL that memoriale brings along: started when needed, stopped after the last process."""

from memoriale.adapters.embedded.server import EmbeddedServer, running, start, stop

__all__ = ["EmbeddedServer", "running", "start", "stop"]
