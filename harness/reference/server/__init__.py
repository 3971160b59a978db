"""HTTP in front of the engines: routes, dialects, streams."""

from harness.reference.server.running import run

__all__ = ["run"]
