"""The page on file formats has every file and every field that there is."""

import re
from pathlib import Path
from typing import get_args

from operations.importers import _assessment_csv, _cases
from storage import views
from storage.schema.datasets import Case
from storage.schema.evidence import EvidenceRecord, Slot
from storage.schema.traces import ImportedRecord

PAGE = (Path(__file__).parents[2] / "docs" / "file-formats.md").read_text(encoding="utf-8")


def section(title):
    """Returns the text below a heading, up to the next."""
    return re.split(r"^#+ ", PAGE.partition(f" {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def fields(title):
    """Returns the names in the first column of a section's table."""
    rows = re.findall(r"^\| (`.+?) \|", section(title), re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def test_every_field_of_a_case_is_told():
    assert sorted(fields("`cases.jsonl`")) == sorted(Case.model_fields)
    assert sorted(fields("Cases")) == sorted(get_args(_cases.CaseField))


def test_every_field_of_a_record_is_told():
    assert sorted(fields("`records.jsonl` of a run")) == sorted(EvidenceRecord.model_fields)
    assert sorted(fields("`records.jsonl` of an import")) == sorted(ImportedRecord.model_fields)
    (slots,) = re.findall(r"^\| `evidence/ID/slots.jsonl` \| (.+) \|$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", slots) == list(Slot.model_fields)


def test_every_column_of_an_assessment_is_told_in_its_order():
    assert tuple(fields("`assessment.csv`")) == _assessment_csv.COLUMNS


def test_every_view_is_at_the_place_that_is_told():
    told = {
        kind: place
        for kinds, place in re.findall(r"^\| ([a-z_, ]+) \| `(\S+\.json)` \|$", PAGE, re.MULTILINE)
        for kind in kinds.split(", ")
    }
    meant = {kind: re.sub(r"rounds/\{\w+\}", "rounds/ROUND", place) for kind, place in views.PLACES.items()}
    assert told == {kind: place.replace("{id}", "ID") for kind, place in meant.items()}
