"""Framed lines: every border is valid, an interrupted append shows as torn, and rot is named and never cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.frames import HEADER, ORIGIN, Frame, FrameTooLarge, Tail, canonical, encode, scan


def written(*bodies):
    data, prev = b"", ORIGIN
    for body in bodies:
        frame, prev = encode({**body, "prev": prev})
        data += frame
    return data


THREE = written({"n": 1}, {"n": 2, "text": "a\nb"}, {"n": 3})
BORDERS = [found.end for found in scan(THREE) if isinstance(found, Frame)]


def read(data):
    *frames, tail = scan(data)
    assert isinstance(tail, Tail)
    return [frame.body["n"] for frame in frames], tail


def test_frames_are_read_back_in_order_and_end_clean():
    numbers, tail = read(THREE)
    assert numbers == [1, 2, 3]
    assert (tail.state, tail.offset) == ("clean", len(THREE))


@pytest.mark.parametrize("cut", range(len(THREE)))
def test_a_file_cut_anywhere_has_whole_frames_and_then_a_torn_one(cut):
    numbers, tail = read(THREE[:cut])
    whole = [border for border in BORDERS if border <= cut]
    assert numbers == [1, 2, 3][: len(whole)]
    assert tail.offset == (whole[-1] if whole else 0)
    assert tail.state == ("clean" if cut in (0, *BORDERS) else "torn")


@pytest.mark.parametrize("kept", range(BORDERS[1], len(THREE)))
def test_a_last_frame_that_ends_in_zeros_is_torn(kept):
    numbers, tail = read(THREE[:kept] + b"\0" * (len(THREE) - kept))
    assert numbers == [1, 2]
    assert (tail.state, tail.offset) == ("torn", BORDERS[1])


@pytest.mark.parametrize("bit", [0x01, 0x02, 0x08, 0x20, 0x80])
def test_a_flipped_bit_of_a_whole_file_is_damage_at_its_frame(bit):
    for place in range(len(THREE)):
        damaged = bytearray(THREE)
        damaged[place] ^= bit
        numbers, tail = read(bytes(damaged))
        before = [border for border in (0, *BORDERS) if border <= place]
        assert (tail.state, tail.offset) == ("damaged", before[-1]), place
        assert numbers == [1, 2, 3][: len(before) - 1]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_frame_that_was_taken_out_shows(missing):
    start = BORDERS[missing - 1] if missing else 0
    _, tail = read(THREE[:start] + THREE[BORDERS[missing] :])
    assert (tail.state, tail.offset) == ("damaged", start)
    assert "does not follow" in tail.reason


def test_a_whole_frame_that_holds_no_json_is_damage():
    import zlib

    body = b"{not json"
    _, tail = read(b"%08x %08x %s\n" % (len(body), zlib.crc32(body), body))
    assert tail.state == "damaged"


def test_a_whole_frame_that_is_no_object_is_damage():
    import zlib

    body = b"[1]"
    _, tail = read(b"%08x %08x %s\n" % (len(body), zlib.crc32(body), body))
    assert tail.state == "damaged"


def test_reading_goes_on_where_it_stopped():
    first = next(found for found in scan(THREE) if isinstance(found, Frame))
    *frames, tail = scan(THREE[first.end :], offset=first.end, prev=first.digest)
    assert [frame.body["n"] for frame in frames] == [2, 3]
    assert tail == Tail("clean", len(THREE))


def test_a_frame_too_large_for_a_reader_is_never_made(monkeypatch):
    monkeypatch.setattr("storage.frames.MAX_BODY", 40)
    with pytest.raises(FrameTooLarge, match="51 bytes"):
        encode({"text": "x" * 40})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_any_json_is_one_line_of_ascii(value):
    raw = canonical(value)
    assert raw.isascii()
    assert not set(raw) & set(range(32))


@given(st.dictionaries(st.text(min_size=1), json_values, max_size=3))
def test_any_object_survives_a_frame(value):
    body = {**value, "prev": ORIGIN}
    frame, digest = encode(body)
    found, tail = scan(frame)
    assert isinstance(found, Frame)
    assert (found.body, found.digest, found.end) == (body, digest, len(frame))
    assert len(frame) > HEADER
    assert tail == Tail("clean", len(frame))
