"""Turns files that a user gives into Cases and verdicts, one row at a time, and refuses what it cannot read whole."""

from operations.importers._cases import CaseReader, fingerprint, read_cases
from operations.importers._rows import SourceRefused

__all__ = ["CaseReader", "SourceRefused", "fingerprint", "read_cases"]
