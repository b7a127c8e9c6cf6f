"""The batch of a kept candidate is the next one's parent side: it ran every Issue's targets."""

from operations.registry import all_operations
from tests.support.projects import Target
