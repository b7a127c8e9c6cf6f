"""What is sealed opens as itself, at its own place, with its own key, and not otherwise."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import sealing
from storage.sealing import _boxes
from storage.sealing._boxes import PIECE_BYTES, SealBroken, SealKey

KEY = SealKey("project-1-abcd", bytes(range(32)))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.text(max_size=20))
def test_a_value_opens_as_it_was(value, place):
    sealed = KEY.seal(value, place)
    assert KEY.open(sealed, place) == value
    assert sealed != KEY.seal(value, place)
    assert sealing.key_id_of(sealed) == KEY.id


def test_a_value_opens_at_no_other_place_in_no_other_project_and_with_no_other_key():
    sealed = KEY.seal({"input": "half \ud800"}, "case 1")
    assert KEY.open(sealed, "case 1") == {"input": "half \ud800"}
    for key, place in (
        (KEY, "case 2"),
        (SealKey("project-1-other", KEY.secret), "case 1"),
        (SealKey(KEY.project_id, bytes(32)), "case 1"),
    ):
        with pytest.raises(SealBroken):
            key.open(sealed, place)
    for broken in (sealed[:-8] + "AAAAAAA=", sealed[:40], "atk1:none:", ""):
        with pytest.raises(SealBroken):
            KEY.open(broken, "case 1")


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES])
def test_a_file_opens_as_it_was_however_it_is_read(size):
    data = os.urandom(size)
    sealed = b"".join(KEY.seal_bytes([data[:7], data[7:]], "attachment a"))
    for step in (len(sealed), 100_000):
        chunks = (sealed[at : at + step] for at in range(0, len(sealed), step))
        assert b"".join(KEY.open_bytes(chunks, "attachment a")) == data


def test_a_file_that_was_cut_lengthened_or_reordered_does_not_open(monkeypatch):
    monkeypatch.setattr(_boxes, "PIECE_BYTES", 64)
    sealed = b"".join(KEY.seal_bytes([bytes(200)], "a"))
    head, piece = 23, 64 + _boxes.TAG_BYTES
    assert b"".join(KEY.open_bytes([sealed], "a")) == bytes(200)
    swapped = sealed[:head] + sealed[head + piece : head + 2 * piece] + sealed[head : head + piece]
    for broken in (
        sealed[: head + 3 * piece],
        sealed[: head + piece],
        sealed[:head],
        sealed[:10],
        sealed + bytes(30),
        swapped + sealed[head + 2 * piece :],
    ):
        with pytest.raises(SealBroken):
            b"".join(KEY.open_bytes([broken], "a"))


def test_a_digest_tells_nothing_without_the_key():
    assert KEY.digest("input", "yes") == KEY.digest("input", "yes") != KEY.digest("input", "no")
    assert KEY.digest("input", "yes") != SealKey(KEY.project_id, bytes(32)).digest("input", "yes")
    assert KEY.secret.hex() not in repr(KEY)


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path, monkeypatch):
    monkeypatch.setenv(sealing.KEY_HOME, str(tmp_path / "keys"))
    made = sealing.made_or_known("project-1-abcd")
    assert sealing.made_or_known("project-1-abcd") == made
    path = sealing.key_path("project-1-abcd")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "keys").st_mode) == 0o700
    assert os.listdir(tmp_path / "keys") == ["project-1-abcd.key"]
    with pytest.raises(sealing.HoldoutKeyMissing, match=made.id):
        sealing.load_key("project-1-abcd", "0" * 16)
    with pytest.raises(sealing.HoldoutKeyMissing):
        sealing.load_key("project-1-none", made.id)


def test_a_key_home_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(sealing.KEY_HOME, str(tmp_path / "file"))
    with pytest.raises(sealing.HoldoutKeyUnusable, match=str(tmp_path / "file")):
        sealing.made_or_known("project-1-abcd")
