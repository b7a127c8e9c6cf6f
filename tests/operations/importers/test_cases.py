"""Reading Cases: what is taken as it is, and what is refused with its row."""

import csv
import hashlib
import io
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.importers import _attachments, _cases, _rows, read_cases
from storage.schema.datasets import Case

U = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def cases(path, mapping=None, **options):
    reader = read_cases(path, mapping, root=os.path.dirname(path), **options)
    return list(reader), reader


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_csv_as_a_spreadsheet_saves_it_keeps_every_cell_as_it_is(write):
    content = b'\xef\xbb\xbf"id",input,expected\r\nc-1,"first line\r\nsecond line",007\r\n'
    content += b'c-2,"she said ""no"", then left",\r\n'
    path = write("cases.csv", content)
    (first, second), reader = cases(path)
    assert (first.id, first.input, first.expected_present, first.expected) == (
        "c-1",
        "first line\r\nsecond line",
        True,
        "007",
    )
    assert (second.input, second.expected_present, second.expected) == ('she said "no", then left', False, None)
    assert reader.mapping == {"input": "input", "id": "id", "expected": "expected"}
    assert reader.source_sha256 == hashlib.sha256(content).hexdigest()
    assert (reader.case_count, reader.usage_counts["optimization"], reader.warnings) == (2, 2, [])


def test_cell_over_the_default_limit_is_whole_and_the_limit_is_put_back(write):
    before = csv.field_size_limit()
    (case,), _ = cases(write("cases.csv", "input\n" + "x" * 200_000 + "\n"))
    assert len(case.input) == 200_000
    assert csv.field_size_limit() == before


def test_jsonl_keeps_json_types_and_splits_at_line_feeds_only(write):
    text = json.dumps({"input": U, "expected": None}, ensure_ascii=False) + "\r\n \r\n" + '{"input": {"n": 0}, "id": 0}'
    (first, second), _ = cases(write("cases.jsonl", b"\xef\xbb\xbf" + text.encode()))
    assert (first.id, first.input, first.expected_present, first.expected) == ("case-1", U, True, None)
    assert (second.id, second.input, second.expected_present) == ("0", {"n": 0}, False)
    assert (second.source.path, second.source.row) == ("cases.jsonl", 2)


def test_half_a_surrogate_pair_and_a_huge_integer_are_data(write):
    (case,), _ = cases(write("cases.jsonl", '{"input": ["\\ud800", 12345678901234567890123]}'))
    assert case.input == ["\ud800", 12345678901234567890123]
    assert Case.model_validate(case.model_dump()) == case


def test_mapping_names_columns_and_dropped_columns_are_warned_of(write):
    path = write("cases.csv", "question,answer,note,input\nq,a,n,i\n")
    (case,), reader = cases(path, {"input": "question", "expected": "answer"})
    assert (case.input, case.expected) == ("q", "a")
    assert "note, input" in reader.warnings[0]


def test_usage_group_and_conditions_are_read(write):
    path = write(
        "c.jsonl",
        lines(
            {"input": 1, "usage": "protection", "source_group_id": "g", "initial_conditions": {"a": 1}},
            {"input": 2, "usage": ""},
        ),
    )
    (first, second), reader = cases(path)
    assert (first.usage, first.source_group_id, first.initial_conditions) == ("protection", "g", {"a": 1})
    assert (second.usage, second.source_group_id) == ("optimization", None)
    assert reader.usage_counts == {"optimization": 1, "protection": 1, "holdout": 0}


def test_attachments_are_digested_and_their_folder_does_not_change_the_fingerprint(tmp_path):
    found = []
    for folder in ("one", "two"):
        (tmp_path / folder / "files").mkdir(parents=True)
        (tmp_path / folder / "files" / "a.txt").write_bytes(b"content")
        path = tmp_path / folder / "cases.csv"
        relative = str(tmp_path / folder / "files" / "a.txt") if folder == "one" else "files/a.txt"
        path.write_text('input,attachments\nx,"' + json.dumps([relative]).replace('"', '""') + '"\n')
        ((case,), reader) = cases(str(path))
        assert (case.attachments[0].path, case.attachments[0].bytes) == ("files/a.txt", 7)
        assert case.attachments[0].sha256 == hashlib.sha256(b"content").hexdigest()
        assert reader.attachment_bytes == 7
        found.append(case.fingerprint)
    assert found[0] == found[1]


def test_fingerprint_follows_the_content_and_not_the_source(write):
    (one,), _ = cases(write("a.jsonl", '{"id": "c", "input": {"a": 1, "b": 2}}'))
    _, (two, other) = (
        None,
        cases(write("b.jsonl", '{"input":{"b":2,"a":1},"id":"c"}\n{"id":"d","input":{"a":1,"b":3}}'))[0],
    )
    assert one.fingerprint == two.fingerprint
    assert other.fingerprint != one.fingerprint


REFUSED = {
    "no_rows": ("c.csv", "id,input\n", _rows.SourceHasNoRows, {}),
    "empty": ("c.jsonl", "", _rows.SourceHasNoRows, {}),
    "empty_csv": ("c.csv", "", _rows.SourceHasNoRows, {}),
    "json_array": ("c.json", "[]", _rows.SourceHasNoRows, {}),
    "other_format": ("c.xlsx", "x", _rows.SourceFormatUnknown, {}),
    "not_an_object": ("c.jsonl", "[1]\n", _rows.RowMalformed, {"row": 1}),
    "torn_tail": ("c.jsonl", '{"input": 1}\n{"input": ', _rows.LastRowTorn, {"row": 2}),
    "torn_quote": ("c.csv", 'input\n"abc', _rows.LastRowTorn, {"row": 1}),
    "damaged_middle": ("c.jsonl", '{"input": 1}\n{"inp\n{"input": 3}\n', _rows.RowMalformed, {"row": 2}),
    "nan": ("c.jsonl", '{"input": NaN}\n', _rows.RowMalformed, {"reason": "NaN is not a JSON number"}),
    "infinite": ("c.jsonl", '{"input": 1e999}\n', _rows.RowMalformed, {"row": 1}),
    "key_twice": ("c.jsonl", '{"input": 1, "input": 2}\n', _rows.RowMalformed, {"row": 1}),
    "too_deep": ("c.jsonl", '{"input": ' + "[" * 100 + "]" * 100 + "}\n", _rows.RowTooDeep, {"row": 1}),
    "far_too_deep": ("c.jsonl", '{"input": ' + "[" * 99999, _rows.RowTooDeep, {"row": 1}),
    "latin_1": ("c.jsonl", b'{"input": 1}\n{"input": "caf\xe9"}\n', _rows.SourceNotUtf8, {"row": 2, "offset": 27}),
    "utf_16": ("c.csv", "input\nx\n".encode("utf-16"), _rows.SourceHasNul, {}),
    "bom_then_bad": ("c.csv", b"\xef\xbb\xbf\xff", _rows.SourceNotUtf8, {"offset": 3, "byte": "0xff"}),
    "nul": ("c.csv", b"input\na\0b\n", _rows.SourceHasNul, {"offset": 7}),
    "cells": ("c.csv", "id,input\n1,2,3\n", _rows.RowMalformed, {"row": 1}),
    "header_twice": ("c.csv", "input,input\n1,2\n", _rows.RowMalformed, {"row": 1}),
    "no_input": ("c.csv", "id,imput\n1,2\n", _cases.ColumnMissing, {"suggestion": " (did you mean 'imput'?)"}),
    "no_input_in_row_2": ("c.jsonl", '{"input": 1}\n{"id": 2}\n', _cases.ColumnMissing, {"row": 2, "column": "input"}),
    "id_twice": (
        "c.jsonl",
        '{"input":1,"id":1}\n{"input":2,"id":"1"}\n',
        _cases.CaseIdTwice,
        {"row": 2, "first_row": 1},
    ),
    "id_taken": ("c.csv", "id,input\ncase-2,x\n,y\n", _cases.CaseIdTwice, {"row": 2}),
    "id_of_a_kind": ("c.jsonl", '{"input":1,"id":[1]}\n', _cases.CaseIdInvalid, {"given": "[1]"}),
    "id_true": ("c.jsonl", '{"input":1,"id":true}\n', _cases.CaseIdInvalid, {}),
    "id_with_a_line_feed": ("c.jsonl", '{"input":1,"id":"a\\nb"}\n', _cases.CaseIdInvalid, {}),
    "id_too_long": ("c.jsonl", '{"input":1,"id":"' + "x" * 513 + '"}\n', _cases.CaseIdInvalid, {}),
    "usage": (
        "c.csv",
        "input,usage\nx,protecton\n",
        _cases.UsageUnknown,
        {"given": "'protecton'", "suggestion": " (did you mean 'protection'?)"},
    ),
    "usage_of_a_kind": ("c.jsonl", '{"input":1,"usage":["holdout"]}\n', _cases.UsageUnknown, {}),
    "holdout_attachment": (
        "c.jsonl",
        '{"input":1,"usage":"holdout","attachments":["secret-name.txt"]}\n',
        _attachments.AttachmentUnreadable,
        {"attachment": "(of a holdout Case; not shown)"},
    ),
    "group": ("c.jsonl", '{"input":1,"source_group_id":7}\n', _cases.SourceGroupNotText, {"given": "7"}),
    "attachments": ("c.csv", "input,attachments\nx,a.txt\n", _attachments.AttachmentsMalformed, {"row": 1}),
    "attachments_numbers": ("c.jsonl", '{"input":1,"attachments":[1]}\n', _attachments.AttachmentsMalformed, {}),
    "outside": ("c.jsonl", '{"input":1,"attachments":["../x"]}\n', _attachments.AttachmentOutside, {"row": 1}),
    "absolute": ("c.jsonl", '{"input":1,"attachments":["/dev/zero"]}\n', _attachments.AttachmentOutside, {}),
    "ATK's key": ("c.jsonl", '{"input":1,"attachments":[".atk/mask.key"]}\n', _attachments.AttachmentUnreadable, {}),
    "Git's files": (
        "c.jsonl",
        '{"input":1,"attachments":["a/../.git/config"]}\n',
        _attachments.AttachmentUnreadable,
        {},
    ),
    "absent": ("c.jsonl", '{"input":1,"attachments":["gone.txt"]}\n', _attachments.AttachmentUnreadable, {"row": 1}),
    "nul_in_path": ("c.jsonl", '{"input":1,"attachments":["a\\u0000"]}\n', _attachments.AttachmentUnreadable, {}),
    "folder": ("c.jsonl", '{"input":1,"attachments":["."]}\n', _attachments.AttachmentUnreadable, {}),
}


@pytest.mark.parametrize(("name", "content", "error", "facts"), REFUSED.values(), ids=REFUSED)
def test_source_is_refused_with_its_row(write, name, content, error, facts):
    path = write(name, content)
    with pytest.raises(error) as refused:
        cases(path)
    assert facts.items() <= refused.value.facts.items()
    assert path in str(refused.value)
    assert refused.value.next


def test_misspelt_mapping_is_refused_with_a_close_match(write):
    path = write("c.csv", "question\nq\n")
    with pytest.raises(_cases.MappingFieldUnknown, match="did you mean 'input'"):
        cases(path, {"inputs": "question"})
    with pytest.raises(_cases.ColumnMissing, match="did you mean 'question'"):
        cases(path, {"input": "Questoin"})
    with pytest.raises(_cases.ColumnMissing, match="column 'answer'"):
        cases(write("c.jsonl", '{"input": 1}'), {"expected": "answer"})


def test_group_with_holdout_and_other_cases_is_refused_in_either_order(write):
    rows = [{"input": 1, "usage": "holdout", "source_group_id": "g"}, {"input": 2, "source_group_id": "g"}]
    for name, order in (("a.jsonl", rows), ("b.jsonl", rows[::-1])):
        with pytest.raises(_cases.SourceGroupSplit) as refused:
            cases(write(name, lines(*order)))
        assert (refused.value.row, refused.value.first_row) == (2, 1)


def test_pipe_device_folder_and_link_loop_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    for name in ("fifo", "folder", "zero", "loop", "absent"):
        with pytest.raises(_rows.SourceNotRegular):
            cases(str(tmp_path / f"{name}.jsonl"))


def test_line_over_the_limit_is_refused_before_it_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(_rows, "MAX_LINE", 100)
    path = tmp_path / "c.jsonl"
    path.write_text('{"input": "' + "x" * 200 + '"}')
    with pytest.raises(_rows.RowTooLong):
        cases(str(path))


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=5))
def test_csv_written_by_the_standard_library_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "c.csv"
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows([("input", "expected"), *rows])
    path.write_bytes(text.getvalue().encode())
    found, _ = cases(str(path))
    assert [(case.input, case.expected or "") for case in found] == rows


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=6,
)


@given(st.lists(documents, min_size=1, max_size=4), st.booleans())
def test_jsonl_is_read_back_whatever_it_holds(tmp_path_factory, inputs, escaped):
    path = tmp_path_factory.mktemp("jsonl") / "c.jsonl"
    text = "\n".join(json.dumps({"input": value}, ensure_ascii=escaped) for value in inputs)
    path.write_bytes(text.encode("utf-8"))
    assert [case.input for case in cases(str(path))[0]] == inputs
