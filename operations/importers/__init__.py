"""Turns files that a user gives into Cases and verdicts, one row at a time, and refuses what it cannot read whole."""

from operations.importers._assessment_csv import AssessmentCsvMalformed, read_assessment_csv, write_assessment_csv
from operations.importers._cases import CaseReader, fingerprint, read_cases
from operations.importers._rows import SourceRefused
from operations.importers.verdicts import VerdictsRefused, expand_rows, read_rows_file

__all__ = [
    "AssessmentCsvMalformed",
    "CaseReader",
    "SourceRefused",
    "VerdictsRefused",
    "expand_rows",
    "fingerprint",
    "read_assessment_csv",
    "read_cases",
    "read_rows_file",
    "write_assessment_csv",
]
