"""What Codex makes of an input schema, for the tests that hold every tool to it."""

from atk_mcp.codex_schema import BUDGET, OURS, sanitised, size

__all__ = ["BUDGET", "OURS", "sanitised", "size"]
