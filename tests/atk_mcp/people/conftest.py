"""The stages of a Round, for commands that look at them."""

from tests.operations.conftest import at, stages

__all__ = ["at", "stages"]
