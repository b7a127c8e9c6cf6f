"""`record_source_contract`: versions that are never changed, and excerpts that are masked."""

import pytest

from operations.catalog.evidence.record_source_contract import ContractUnclear, ContractVersionTaken, ExcerptUnusable
from operations.invocation import InvalidArguments
from storage.projection import UnknownObject
from storage.schema.contracts import SourceContract
from tests.operations.catalog.test_find_records import TOKEN
from tests.support.imports import Imports

MEANING = {
    "source_namespace": "support",
    "mapping_version": "1",
    "agreed_by": "the owner",
    "fields": [
        {"field": "scores.quality", "meaning": "the reviewer's mark", "type": "number", "min": 0, "max": 1},
        {"field": "output", "meaning": "what the customer read", "required": True},
        {"field": "metadata.metadata.region", "meaning": "where", "values": ["north", "south"]},
    ],
}


@pytest.fixture
def imports(tmp_path):
    return Imports(tmp_path / "project")


@pytest.fixture
def write(imports):
    def write(name, content):
        path = f"{imports.root}/{name}"
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return name

    return write


def test_the_same_contract_is_recorded_once_and_another_needs_a_version(imports):
    made = imports.call("record_source_contract", **MEANING)
    assert made.fields == ["scores.quality", "output", "metadata.metadata.region"]
    assert "the client reports" in made.agreed
    assert imports.call("record_source_contract", **MEANING).contract_id == made.contract_id
    other = {**MEANING, "fields": MEANING["fields"][:1]}
    with pytest.raises(ContractVersionTaken) as raised:
        imports.call("record_source_contract", **other)
    assert raised.value.contract_id == made.contract_id
    second = imports.call("record_source_contract", **{**other, "mapping_version": "2"})
    assert second.supersedes == made.contract_id
    elsewhere = imports.call("record_source_contract", **{**other, "source_namespace": "sales"})
    assert elsewhere.supersedes is None
    assert imports.call("read_record", record_id=made.contract_id, field="fields").value[0]["max"] == 1


def test_an_excerpt_keeps_the_lines_masked_and_the_files_digest(imports, write):
    lines = [f"line {number}" for number in range(1, 8)] + [f"key = '{TOKEN}'", "end"]
    write("tool.py", "\n".join(lines) + "\n")
    asked = {"source_path": "tool.py", "start_line": 7, "end_line": 9, "component_id": "code", "source_revision": "3"}
    made = imports.call("record_source_contract", **asked)
    kept = imports.project.state().get(SourceContract, made.contract_id)
    assert kept.excerpt.text.split("\n")[0] == "line 7"
    assert kept.excerpt.text.split("\n")[2] == "end"
    assert (kept.excerpt.masked, made.excerpt_masked, kept.agreed, kept.version) == (True, True, None, None)
    assert TOKEN.encode() not in imports.every_byte()
    one = imports.call("record_source_contract", source_path="tool.py", start_line=2)
    assert imports.project.state().get(SourceContract, one.contract_id).excerpt.text == "line 2"
    both = imports.call("record_source_contract", **MEANING, **asked)
    assert imports.project.state().get(SourceContract, both.contract_id).excerpt.start_line == 7


@pytest.mark.parametrize(
    "asked",
    [
        {"source_path": "none.py"},
        {"source_path": "no\0ne.py"},
        {"source_path": "../outside.py"},
        {"source_path": "/etc/hostname"},
        {"source_path": ".atk/mask.key"},
        {"source_path": "folder"},
        {"source_path": "latin.py"},
        {"source_path": "large.py"},
        {"source_path": "empty.py"},
        {"source_path": "short.py", "start_line": 4},
        {"source_path": "short.py", "start_line": 3, "end_line": 2},
        {"source_path": "short.py", "end_line": 101},
        {"source_path": "link.py"},
    ],
)
def test_lines_that_may_not_be_read_are_refused(imports, write, asked, tmp_path):
    (tmp_path / "outside.py").write_text("x\n")
    (tmp_path / "project" / "folder").mkdir()
    (tmp_path / "project" / "link.py").symlink_to("../outside.py")
    write("latin.py", b"\xe9\n")
    write("large.py", b"x\n" * (1 << 20))
    write("empty.py", b"")
    write("short.py", "1\n2\n3\n")
    before = imports.every_byte()
    with pytest.raises(ExcerptUnusable):
        imports.call("record_source_contract", **asked)
    assert imports.every_byte() == before


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"mapping_version": "1"},
        {"fields": [], "agreed_by": "x"},
        {**MEANING, "agreed_by": None},
        {**MEANING, "mapping_version": None},
        {**MEANING, "fields": MEANING["fields"][:1] * 2},
    ],
)
def test_a_contract_that_does_not_say_what_it_is_of_is_refused(imports, asked):
    with pytest.raises(ContractUnclear):
        imports.call("record_source_contract", **asked)


def test_a_field_that_no_record_has_and_a_round_that_is_none_are_refused(imports):
    with pytest.raises(InvalidArguments, match="fields"):
        imports.call("record_source_contract", **{**MEANING, "fields": [{"field": "colour", "meaning": "x"}]})
    with pytest.raises(UnknownObject):
        imports.call("record_source_contract", **MEANING, round_id="round-9-none")
