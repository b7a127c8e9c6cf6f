"""Any stored value can be read whole, piece by piece, and no piece is larger than a model can take."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations import reading
from operations.reading import BadCursor, NoSuchField, counted, page, select

text = st.text(st.characters(exclude_categories=()), max_size=40)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(text, inner, max_size=8),
    max_leaves=30,
)


def size(value):
    return len(json.dumps(value, ensure_ascii=False).encode())


def pieces(value):
    cursor, found = None, []
    while True:
        piece = page("x", value, cursor)
        assert size(piece.value) <= reading.PAGE_BYTES + 600
        found.append(piece.value)
        cursor = piece.next_cursor
        if cursor is None:
            return found


@settings(deadline=None, max_examples=60)
@given(values)
def test_every_piece_of_any_value_is_bounded_and_can_be_sent(value):
    assert pieces(value)


@pytest.mark.parametrize("unit", ["a", "é", "漢", "💥", "\0", '"', "a漢\n"])
def test_long_text_read_in_pieces_is_the_text(unit):
    value = unit * 9000

    found = pieces(value)

    assert len(found) > 1
    assert "".join(found) == value


def test_long_list_read_in_pieces_is_the_list():
    value = [f"item {n}" for n in range(3000)]

    found = pieces(value)

    assert [item for piece in found for item in piece] == value


def test_object_of_thousands_of_fields_is_paged():
    value = {f"case {n}": "f" * 64 for n in range(3000)}

    found = pieces(value)

    assert len(found) > 10
    assert {k: v for piece in found for k, v in piece.items()} == value


def test_item_that_is_too_large_is_named_instead_of_shown():
    wide = {f"field {n}": "x" * 600 for n in range(20)}

    (found,) = page("x", [wide], None).value

    assert found["left_out"].startswith("20 fields")


def test_half_a_surrogate_pair_is_shown_as_a_replacement():
    assert page("x", {"a\ud800": "b\udc00"}, None).value == {"a\ufffd\ufffd\ufffd": "b\ufffd\ufffd\ufffd"}
    assert page("x", "b\udc00" * 2000, None).value.startswith("b\ufffd")


@pytest.mark.parametrize("cursor", ["-1", "²", "٣", "1.0", "", " 1", "1" * 5000, "3", "0x1"])
def test_cursor_that_was_not_handed_out_is_refused(cursor):
    with pytest.raises(BadCursor) as refused:
        page("x", [1, 2, 3], cursor)

    assert len(refused.value.given) <= 160


def test_field_names_may_hold_dots_and_items_are_numbers():
    value = {"cases": [{"a.b": {"c": 1}}], "a": {"b": 2}}

    assert select("x", value, "cases.0.a.b.c") == 1
    assert select("x", value, "a.b") == 2
    assert select("x", value, None) == value


@pytest.mark.parametrize("field", ["cases.1", "cases.²", "cases.-1", "cases." + "9" * 5000, "b", "a.", ".a", "a.b.c"])
def test_field_that_is_not_there_is_refused_with_those_that_are(field):
    with pytest.raises(NoSuchField) as refused:
        select("x", {"cases": [1], "a": {"b": 2}}, field)

    assert len(refused.value.given) <= 160
    assert set(refused.value.known) <= {"cases", "a", "b", "0 to 0"}


def test_one_thing_is_not_told_as_several():
    assert [counted(n, "Case") for n in (0, 1, 2)] == ["0 Cases", "1 Case", "2 Cases"]


def test_rows_make_only_the_items_that_are_looked_at():
    made = []

    def make(raw):
        made.append(raw)
        return {"n": raw}

    rows = reading.Rows(range(1_000), make)
    found = reading.page("batch-1-abcd", rows, "990")
    assert (found.value[0], found.next_cursor, len(rows)) == ({"n": 990}, None, 1_000)
    assert made == list(range(990, 1_000))
    assert reading.outline({"rows": rows}) == {"rows": {"left_out": "1000 items: ask for this field"}}
    assert reading.select("batch-1-abcd", {"rows": rows}, "rows.7.n") == 7
